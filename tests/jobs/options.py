"""The command line of ddp_lm.py."""


def arguments(parser):
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--lr", type=float, default=0.2)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--lengths", default="varied")
    parser.add_argument("--loss", default="sum", choices=["sum", "none", "mean", "window-sum"])
    parser.add_argument("--loss-scale", type=float, default=1.0)
    parser.add_argument("--smoothing", type=float, default=0.0)
    parser.add_argument("--sync", default="last", choices=["last", "every"])
    parser.add_argument("--hook", default="none", choices=["none", "fp16", "custom"])
    parser.add_argument("--opt", default="sgd", choices=["sgd", "adamw", "two", "groups"])
    parser.add_argument("--clip", default="none", choices=["none", "norm", "value"])
    parser.add_argument("--max-norm", type=float, default=0.5)
    parser.add_argument("--skip", type=int, default=-1, help="a step that all ranks leave out")
    parser.add_argument("--fault", default="")
    parser.add_argument("--save", default="")
    shape = "--unused --frozen --tied --checkpointing --compile"
    manner = "--static-graph --bucket-view --autocast --scaler --keep-zeros"
    for switch in f"{shape} {manner}".split():
        parser.add_argument(switch, action="store_true")
    return parser.parse_args()
