-- Moves that stream the changes of a project while it is written to.
ALTER TABLE cdp.moves
  -- As asked for.
  ADD COLUMN mode text NOT NULL DEFAULT 'copy' CHECK (mode IN ('copy', 'stream')),
  -- Why it was copied though the mode is `stream`, and for about how long.
  ADD COLUMN fallback text,
  DROP CONSTRAINT moves_state_check,
  ADD CONSTRAINT moves_state_check CHECK (state IN
    ('preparing', 'streaming', 'fencing', 'copying', 'verifying', 'switched', 'done', 'undoing', 'undone'));
