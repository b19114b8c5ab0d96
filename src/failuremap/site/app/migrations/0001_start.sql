-- Times are whole seconds since 1970. What opens a door is stored as its SHA-256 alone.
CREATE TABLE members (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    folded TEXT NOT NULL UNIQUE,
    handle BLOB NOT NULL UNIQUE,
    password TEXT,
    joined INTEGER NOT NULL
) STRICT;

CREATE TABLE invitations (
    digest BLOB PRIMARY KEY,
    name TEXT NOT NULL,
    made INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    used INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    digest BLOB PRIMARY KEY,
    member INTEGER NOT NULL REFERENCES members (id) ON DELETE CASCADE,
    begun INTEGER NOT NULL,
    seen INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_of_member ON sessions (member);

CREATE TABLE passkeys (
    id INTEGER PRIMARY KEY,
    credential BLOB NOT NULL UNIQUE,
    member INTEGER NOT NULL REFERENCES members (id) ON DELETE CASCADE,
    public_key BLOB NOT NULL,
    sign_count INTEGER NOT NULL,
    made INTEGER NOT NULL
) STRICT;

CREATE TABLE challenges (
    digest BLOB PRIMARY KEY,
    purpose TEXT NOT NULL,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE submissions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    member INTEGER NOT NULL REFERENCES members (id) ON DELETE CASCADE,
    case_id TEXT NOT NULL,
    source TEXT NOT NULL,
    note TEXT NOT NULL,
    handed_in INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'judged')),
    tries INTEGER NOT NULL DEFAULT 0,
    judged INTEGER,
    verdict TEXT
) STRICT;
CREATE INDEX submissions_by_state ON submissions (state, id);
CREATE INDEX submissions_of_member ON submissions (member, handed_in);

CREATE TABLE limits (
    subject TEXT PRIMARY KEY,
    begun INTEGER NOT NULL,
    taken INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE audit_log (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    event TEXT NOT NULL,
    member TEXT NOT NULL,
    address TEXT NOT NULL
) STRICT;

CREATE TABLE judging (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    level TEXT NOT NULL,
    since INTEGER NOT NULL
) STRICT;
