/** The changes of the project as they come, while the screen is open. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { CdpError, type Change } from '../../../src/client/index.js';
import { Alert } from '../parts/announcements.js';
import { dayAndTime } from '../parts/formats.js';
import { explain } from '../parts/loaded.js';
import { Table } from '../parts/table.js';
import { currentSession } from '../session.js';

const MOST = 100;
const PAUSE_MS = 5_000;

export function LiveChanges() {
  const changes = useSignal<readonly Change[]>([]);
  const error = useSignal('');
  useEffect(() => {
    const closed = new AbortController();
    void follow(
      closed.signal,
      (page) => {
        error.value = '';
        changes.value = [...page.toReversed(), ...changes.value].slice(0, MOST);
      },
      (thrown) => (error.value = explain(thrown)),
    );
    return () => closed.abort();
  }, []);
  return (
    <section>
      <h2>Last changes</h2>
      <Alert>{error}</Alert>
      {changes.value.length === 0 ? (
        <p class="quiet">Changes appear here as they are committed.</p>
      ) : (
        <Table
          label="Last changes"
          rows={changes.value}
          keyOf={({ cursor }) => cursor}
          columns={[
            { title: 'Table', cells: 'mono', cell: ({ table }) => table },
            { title: 'Change', cell: ({ op, change }) => change ?? op },
            { title: 'Row', cells: 'mono', hint: textOf, cell: (change) => shortened(textOf(change)) },
            { title: 'Committed', class: 'wide-only', cell: ({ committed_at: time }) => dayAndTime(time) },
          ]}
        />
      )}
    </section>
  );
}

async function follow(
  signal: AbortSignal,
  onPage: (page: readonly Change[]) => void,
  onError: (thrown: unknown) => void,
): Promise<void> {
  const { client } = currentSession();
  let after: string | undefined;
  while (!signal.aborted) {
    try {
      const from = after === undefined ? {} : { after, wait: 30 };
      const page = await client.changesPage({ ...from, limit: MOST, signal });
      after = page.cursor;
      onPage(page.changes);
    } catch (thrown) {
      if (signal.aborted) return;
      onError(thrown);
      // What is no longer kept is not shown.
      if (thrown instanceof CdpError && thrown.code === 'cursor_expired') after = undefined;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }
}

const textOf = ({ op, record, key, command }: Change): string =>
  op === 'schema' ? (command ?? '') : op === 'truncate' ? '' : JSON.stringify(record ?? key);

const shortened = (text: string): string => (text.length > 120 ? `${text.slice(0, 120)}…` : text);
