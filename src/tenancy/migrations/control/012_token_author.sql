-- Who created a token, as the audit log names the actor: its kind, and its name or id. NULL: unknown, since an earlier version
-- created it.
ALTER TABLE cdp.tokens ADD COLUMN created_by text;
