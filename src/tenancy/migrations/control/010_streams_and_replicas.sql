-- Moves that stream the changes of a project while clients write to it.
ALTER TABLE cdp.moves
  -- As requested.
  ADD COLUMN mode text NOT NULL DEFAULT 'copy' CHECK (mode IN ('copy', 'stream')),
  -- Why it was copied although the mode is `stream`, and for about how long writes are refused.
  ADD COLUMN fallback text,
  DROP CONSTRAINT moves_state_check,
  ADD CONSTRAINT moves_state_check CHECK (state IN
    ('preparing', 'streaming', 'fencing', 'copying', 'verifying', 'switched', 'done', 'undoing', 'undone'));

-- Streaming replicas of a server, which may serve bounded reads: where each instance reads their URLs, as in url_reference.
ALTER TABLE cdp.servers
  ADD COLUMN replicas jsonb NOT NULL DEFAULT '[]',
  -- The default of reads that do not specify it.
  ADD COLUMN consistency text NOT NULL DEFAULT 'strong' CHECK (consistency IN ('strong', 'bounded'));

DROP TRIGGER count_change ON cdp.servers;
CREATE TRIGGER count_change
  AFTER INSERT OR DELETE OR UPDATE OF url_reference, engine, max_connections, replicas, consistency ON cdp.servers
  FOR EACH STATEMENT EXECUTE FUNCTION cdp.count_change();
