"""Numbers of system calls: name:x86_64:aarch64, or - where an architecture has no such call."""

from __future__ import annotations

DENIED = """
    _sysctl:156:- accept:43:202 accept4:288:242 acct:163:89 add_key:248:217 adjtimex:159:171 bind:49:200 bpf:321:280
    capset:126:91 chroot:161:51 clock_adjtime:305:266 clock_settime:227:112 clone:56:220 clone3:435:435
    connect:42:203 delete_module:176:106 fanotify_init:300:262 finit_module:313:273 fork:57:- fsconfig:431:431
    fsmount:432:432 fsopen:430:430 fspick:433:433 getpeername:52:205 getsockname:51:204 getsockopt:55:209
    init_module:175:105 inotify_init:253:- inotify_init1:294:26 io_destroy:207:1 io_setup:206:0 io_submit:209:2
    io_uring_enter:426:426 io_uring_register:427:427 io_uring_setup:425:425 ioperm:173:- iopl:172:- kcmp:312:272
    kexec_file_load:320:294 kexec_load:246:104 keyctl:250:219 kill:62:129 listen:50:201 lookup_dcookie:212:18
    mbind:237:235 memfd_create:319:279 memfd_secret:447:447 migrate_pages:256:238 modify_ldt:154:- mount:165:40
    mount_setattr:442:442 move_mount:429:429 move_pages:279:239 mq_notify:244:184 mq_open:240:180
    mq_timedreceive:243:183 mq_timedsend:242:182 mq_unlink:241:181 msgctl:71:187 msgget:68:186 msgrcv:70:188
    msgsnd:69:189 name_to_handle_at:303:264 nfsservctl:180:42 open_by_handle_at:304:265 open_tree:428:428
    perf_event_open:298:241 personality:135:92 pidfd_getfd:438:438 pidfd_open:434:434 pidfd_send_signal:424:424
    pivot_root:155:41 process_madvise:440:440 process_mrelease:448:448 process_vm_readv:310:270
    process_vm_writev:311:271 ptrace:101:117 quotactl:179:60 reboot:169:142 recvfrom:45:207 recvmmsg:299:243
    recvmsg:47:212 request_key:249:218 rt_sigqueueinfo:129:138 rt_tgsigqueueinfo:297:240 semctl:66:191 semget:64:190
    semop:65:193 semtimedop:220:192 sendmmsg:307:269 sendmsg:46:211 sendto:44:206 set_mempolicy:238:237
    setdomainname:171:162 setfsgid:123:152 setfsuid:122:151 setgid:106:144 setgroups:116:159 sethostname:170:161
    setns:308:268 setregid:114:143 setresgid:119:149 setresuid:117:147 setreuid:113:145 setsockopt:54:208
    settimeofday:164:170 setuid:105:146 shmat:30:196 shmctl:31:195 shmdt:67:197 shmget:29:194 shutdown:48:210
    socket:41:198 socketpair:53:199 swapoff:168:225 swapon:167:224 syslog:103:116 tgkill:234:131 tkill:200:130
    umount2:166:39 unshare:272:97 uselib:134:- userfaultfd:323:282 ustat:136:- vfork:58:- vhangup:153:58
"""
"""What starting an interpreter never needs, and getting out of a box might."""

ALLOWED = """
    brk:12:214 clock_gettime:228:113 exit_group:231:94 futex:202:98 getrandom:318:278 gettimeofday:96:169
    madvise:28:233 mmap:9:222 mprotect:10:226 mremap:25:216 munmap:11:215 read:0:63 restart_syscall:219:128
    rt_sigreturn:15:139 sched_yield:24:124 write:1:64
"""
"""All that a started interpreter needs to compute, read its next input and write its answer."""

NEWEST = 450
"""Calls past the newest known here do not exist in the box."""

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""What the kernel calls an architecture, by what Python does."""


def numbers(names: str, machine: str) -> dict[str, int]:
    """Returns the calls of a table that an architecture has.

    Example:
        >>> numbers("fork:57:- mount:165:40", "aarch64")
        {'mount': 40}
    """
    column = list(ARCHITECTURES).index(machine)
    found = [(name, each[column]) for name, *each in (entry.split(":") for entry in names.split())]
    return {name: int(number) for name, number in found if number != "-"}
