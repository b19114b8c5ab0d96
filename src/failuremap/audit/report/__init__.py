"""Reports draw a verdict: a terminal page, JSON with a published schema, an HTML file that stands alone.

    words     values and lists as short text; what no terminal or browser should ever be sent is escaped here
    outline   the labelled lines of a verdict, the same for the terminal and for HTML
    repairs   what to do about a finding, for each mechanism that may be its cause
    cells     ranks x micro-batches: which are shown, and the word for each share
    terminal  `page`, `print_verdict`
    html      `html`
    json_     `to_json`, `schema`, `write`, `check_writable`

`make docs` writes the published schema.
"""
