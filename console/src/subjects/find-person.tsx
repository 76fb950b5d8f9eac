/** Finds a person by an identifier, shows the rows of each table, and offers to hand over and to erase them. */
import { useSignal } from '@preact/signals';
import type { Declaration, SubjectBody } from '../../../src/contract/wire/subjects.js';
import { Alert } from '../parts/announcements.js';
import { useDialog } from '../parts/dialog.js';
import { SelectField, TextField } from '../parts/fields.js';
import { count, counted } from '../parts/formats.js';
import { explain } from '../parts/loaded.js';
import { Table } from '../parts/table.js';
import { type Cell, preview } from '../results/cells.js';
import { encoded, saveFile } from '../results/download.js';
import { goTo } from '../route.js';
import { currentSession, hasScope } from '../session.js';
import { EraseForm } from './erase-form.js';
import { type Found, findPerson, type FoundTable } from './found.js';
import { Nonce } from './nonce.js';

export function FindPerson({ declaration }: { declaration: Declaration }) {
  const choices = Object.entries(declaration).flatMap(([kind, { identifiers }]) =>
    Object.keys(identifiers).map((identifier) => ({ kind, identifier, path: `${kind}.${identifier}` })),
  );
  const chosen = useSignal(choices[0]?.path ?? '');
  const value = useSignal('');
  const maxRows = useSignal('');
  const found = useSignal<Found | null>(null);
  const error = useSignal('');
  const isBusy = useSignal(false);
  const choice = choices.find(({ path }) => path === chosen.value) ?? choices[0];
  const run = async (event: Event) => {
    event.preventDefault();
    if (choice === undefined || isBusy.value) return;
    const who: SubjectBody = {
      [choice.kind]: { [choice.identifier]: value.value },
      ...(maxRows.value.trim() === '' ? {} : { max_rows: Number(maxRows.value) }),
    };
    found.value = null;
    error.value = '';
    isBusy.value = true;
    try {
      found.value = await findPerson(who);
    } catch (thrown) {
      error.value = explain(thrown);
    }
    isBusy.value = false;
  };
  const kinds = Object.keys(declaration).length;
  return (
    <section aria-busy={isBusy.value}>
      <h2>Find somebody</h2>
      <form class="filters" onSubmit={(event) => void run(event)}>
        <SelectField
          label="Identifier"
          value={choice?.path ?? ''}
          items={choices.map(({ path, kind, identifier }) => [path, kinds > 1 ? `${kind}: ${identifier}` : identifier])}
          onChange={(path) => (chosen.value = path)}
        />
        <TextField label="Value" text={value} placeholder="ada@example.com" required />
        <TextField label="Rows per table" text={maxRows} placeholder="10000" inputMode="numeric" />
        <div class="filters-end">
          <button type="submit" class="button is-primary" disabled={isBusy.value}>
            {isBusy.value ? 'Looking …' : 'Find'}
          </button>
        </div>
      </form>
      <Alert>{error.value}</Alert>
      {found.value !== null && <FoundPerson key={JSON.stringify(found.value.who)} found={found.value} />}
    </section>
  );
}

function FoundPerson({ found }: { found: Found }) {
  const { dialog, open } = useDialog();
  const error = useSignal('');
  const { who, message, identifiers, joined, tables, places } = found;
  const handOver = async () => {
    error.value = '';
    const { client, left } = currentSession();
    try {
      const lines = () => encoded(client.exportSubject(who, { signal: left }));
      await saveFile(lines, 'ndjson', `${found.kind}-export`);
    } catch (thrown) {
      if ((thrown as Error).name !== 'AbortError') error.value = explain(thrown);
    }
  };
  const erase = () =>
    open((close) => (
      <EraseForm
        found={found}
        onClose={close}
        onDone={(receipt) =>
          open((done) => (
            <Nonce
              {...receipt}
              onClose={() => {
                done();
                goTo('people', 'erasures', receipt.id);
              }}
            />
          ))
        }
      />
    ));
  return (
    <div class="found">
      <p role="status">
        <strong>{message}</strong>
      </p>
      <dl class="facts-list">
        {Object.entries(identifiers).map(([name, values]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{values.join(', ')}</dd>
          </div>
        ))}
        {places.map(({ place, count: n }) => (
          <div key={place}>
            <dt>{place}</dt>
            <dd>{count(n)}</dd>
          </div>
        ))}
      </dl>
      {joined.map(({ table, subjects }) => (
        <p key={table} class="bad">
          The identifiers lead to {counted(subjects, 'row')} of {table}: these may be several people.
        </p>
      ))}
      <div class="actions">
        <button type="button" class="button" onClick={() => void handOver()}>
          Export
        </button>
        {hasScope('subjects:erase') && (
          <button type="button" class="button is-danger" onClick={erase}>
            Erase
          </button>
        )}
      </div>
      <Alert>{error.value}</Alert>
      {tables.map((one) => (
        <Rows key={one.table} of={one} />
      ))}
      {dialog}
    </div>
  );
}

interface NumberedRow {
  readonly row: ReadonlyMap<string, Cell>;
  readonly i: number;
}

function Rows({ of: { table, rowCount, rows } }: { of: FoundTable }) {
  const names = [...new Set(rows.flatMap((row) => [...row.keys()]))];
  return (
    <details>
      <summary>
        {table} <span class="quiet">{counted(rowCount, 'row')}</span>
      </summary>
      {rows.length < rowCount && <p class="quiet">These are the first {counted(rows.length, 'row')}.</p>}
      <Table<NumberedRow>
        label={`Rows of ${table}`}
        rows={rows.map((row, i) => ({ row, i }))}
        keyOf={({ i }) => String(i)}
        columns={names.map((name) => ({
          title: name,
          cells: 'is-long',
          cell: ({ row }) => preview(row.get(name) ?? '', ''),
        }))}
      />
    </details>
  );
}
