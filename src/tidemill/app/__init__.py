"""The application: settings, node, HTTP, command line. Nobody imports app.

Read in this order:
- `settings`         what can be set, where values come from, what is allowed
- `kinds`, `layers`  how values are read, and what this process was told
- `disbatch`         a file of Disbatch's settings, in our words
- `settings_store`   the settings of the whole cluster
- `tokens`, `audit`  who may call, and what was changed by whom
- `bind`, `errors`   where a node may listen, and what callers run into
- `node`             the composition root: store, membership, election and HTTP in one process
- `http/`            the HTTP face of a node, with the door in front
- `cli/`             the command `tidemill`
- `demo/`            a pipeline at work, to look at
- `doctor`           whether this machine is fit for it
- `logs`, `mask`     how events are written down, and what is kept out of sight
"""
