-- Moves that stream the changes of a project while it is written to.
ALTER TABLE cdp.moves
  -- As asked for.
  ADD COLUMN mode text NOT NULL DEFAULT 'copy' CHECK (mode IN ('copy', 'stream')),
  -- Why it was copied though the mode is `stream`, and for about how long.
  ADD COLUMN fallback text,
  DROP CONSTRAINT moves_state_check,
  ADD CONSTRAINT moves_state_check CHECK (state IN
    ('preparing', 'streaming', 'fencing', 'copying', 'verifying', 'switched', 'done', 'undoing', 'undone'));

-- Streaming replicas of a server, which bounded reads may go to: where each instance reads their URLs, as in url_reference.
ALTER TABLE cdp.servers
  ADD COLUMN replicas jsonb NOT NULL DEFAULT '[]',
  -- Of reads that do not say which they want.
  ADD COLUMN consistency text NOT NULL DEFAULT 'strong' CHECK (consistency IN ('strong', 'bounded'));

DROP TRIGGER count_change ON cdp.servers;
CREATE TRIGGER count_change
  AFTER INSERT OR DELETE OR UPDATE OF url_reference, engine, max_connections, replicas, consistency ON cdp.servers
  FOR EACH STATEMENT EXECUTE FUNCTION cdp.count_change();
