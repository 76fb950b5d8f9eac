-- When a token was revoked together with the requests that were running with it. Instances look for these when the counter of
-- changes has changed.
ALTER TABLE cdp.tokens ADD COLUMN ended_at timestamptz;
