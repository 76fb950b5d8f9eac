-- A canceled move is `undoing` from then on, so that no later step can miss it.
ALTER TABLE cdp.moves DROP COLUMN is_canceled;
