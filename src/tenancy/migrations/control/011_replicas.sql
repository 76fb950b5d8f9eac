-- Streaming replicas of a server, which bounded reads may go to: where each instance reads their URLs, as in url_reference.
ALTER TABLE cdp.servers
  ADD COLUMN replicas jsonb NOT NULL DEFAULT '[]',
  -- Of reads that do not say which they want.
  ADD COLUMN consistency text NOT NULL DEFAULT 'strong' CHECK (consistency IN ('strong', 'bounded'));

DROP TRIGGER count_change ON cdp.servers;
CREATE TRIGGER count_change
  AFTER INSERT OR DELETE OR UPDATE OF url_reference, engine, max_connections, replicas, consistency ON cdp.servers
  FOR EACH STATEMENT EXECUTE FUNCTION cdp.count_change();
