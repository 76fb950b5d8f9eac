-- What narrows a token whose only scope is data:append, so that it may be public; NULL: nothing.
ALTER TABLE cdp.tokens ADD COLUMN limits jsonb;

-- What such a token has used of its limits for a day: the last day on which it was used, in UTC. Instances take shares in advance.
CREATE TABLE cdp.token_use (
  token_id uuid NOT NULL REFERENCES cdp.tokens ON DELETE CASCADE,
  what text NOT NULL CHECK (what IN ('requests', 'rows')),
  day date NOT NULL,
  used bigint NOT NULL,
  PRIMARY KEY (token_id, what)
);
