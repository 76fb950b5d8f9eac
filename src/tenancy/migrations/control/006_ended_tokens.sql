-- When a token was revoked together with its running requests. Instances look for such tokens when the counter of changes
-- has changed.
ALTER TABLE cdp.tokens ADD COLUMN ended_at timestamptz;
