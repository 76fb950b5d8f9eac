/** The panel next to the editor: tables to insert, saved queries, and the history. */
import { useSignal } from '@preact/signals';
import { ago, counted, duration } from '../parts/formats.js';
import { TableTree } from '../schema/table-tree.js';
import { SavedQueries } from './saved-queries.js';
import { clearHistory, history, openTab } from './tabs.js';
import { quoted } from './sql-names.js';

const PARTS = ['Tables', 'Saved', 'History'] as const;

export function SidePanel({ onInsert }: { onInsert: (text: string) => void }) {
  const part = useSignal<(typeof PARTS)[number]>('Tables');
  return (
    <aside class="side" aria-label="Tables and queries">
      <div class="side-tabs" role="group" aria-label="Show">
        {PARTS.map((name) => (
          <button key={name} type="button" aria-pressed={part.value === name} onClick={() => (part.value = name)}>
            {name}
          </button>
        ))}
      </div>
      <div class="side-body">
        {part.value === 'Tables' && (
          <TableTree withColumns onPick={(table, column) => onInsert(quoted(column ?? table))} />
        )}
        {part.value === 'Saved' && <SavedQueries />}
        {part.value === 'History' && <History />}
      </div>
    </aside>
  );
}

const OUTCOMES: Record<string, string> = { failed: 'failed', stopped: 'stopped' };

function History() {
  if (history.value.length === 0)
    return <p class="tree-note quiet">What you run appears here, in this browser only.</p>;
  return (
    <>
      <ul class="side-list">
        {history.value.map(({ at, text, state, ms, rows }) => (
          <li key={at}>
            <button type="button" class="side-entry" title={text} onClick={() => openTab(text)}>
              <code class="side-text">{text.replace(/\s+/g, ' ')}</code>
              <span class={state === 'failed' ? 'side-fact bad' : 'side-fact quiet'}>
                {ago(at)} · {OUTCOMES[state] ?? counted(rows, 'row')} · {duration(ms)}
              </span>
            </button>
          </li>
        ))}
      </ul>
      <button type="button" class="button side-clear" onClick={() => void clearHistory()}>
        Clear the history
      </button>
    </>
  );
}
