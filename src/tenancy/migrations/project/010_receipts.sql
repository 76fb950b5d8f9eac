-- The row of a key is the receipt of its batch. A row without an answer means that the key was settled as not stored: it is
-- refused permanently. Rows of earlier versions lack what those did not store.
ALTER TABLE _cdp.idempotency_keys
  -- SHA-256 of only the decoded body, and the number of rows stored or deleted; NULL for requests without a batch.
  ADD COLUMN body_sha256 bytea,
  ADD COLUMN row_count integer,
  ADD COLUMN transaction_id xid8,
  -- NULL: never.
  ADD COLUMN expires_at timestamptz DEFAULT now() + interval '24 hours',
  ALTER COLUMN fingerprint DROP NOT NULL,
  ALTER COLUMN answer DROP NOT NULL,
  -- A key can also be looked up in all paths.
  DROP CONSTRAINT idempotency_keys_pkey,
  ADD PRIMARY KEY (key, path);
DROP INDEX _cdp.idempotency_keys_created_at;
CREATE INDEX idempotency_keys_expires_at ON _cdp.idempotency_keys (expires_at);
