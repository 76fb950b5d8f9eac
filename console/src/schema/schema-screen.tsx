/** The tables of the project: a list next to the selected one. */
import './schema.css';
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { Icon, IconButton } from '../parts/icon.js';
import { useLoaded } from '../parts/loaded.js';
import { count, counted, size } from '../parts/formats.js';
import { goTo, linkTo } from '../route.js';
import type { ScreenProps } from '../screens.js';
import { hasScope } from '../session.js';
import { readCatalog, tableByName, tables } from './catalog.js';
import { CreateTableForm } from './create-table.js';
import { readLargest } from './table-details.js';
import { TableTree } from './table-tree.js';
import { TableView } from './table-view.js';

export function SchemaScreen({ path: [name, part] }: ScreenProps) {
  const isCreating = useSignal(false);
  const table = name === undefined ? undefined : tableByName.value.get(name);
  useEffect(() => void readCatalog(), []);
  const create = () => (isCreating.value = true);
  return (
    <main class={name === undefined ? 'schema' : 'schema has-table'}>
      <aside class="schema-list" aria-label="List of tables">
        <div class="schema-tools">
          {hasScope('schema:write') && (
            <button type="button" class="button" onClick={create}>
              <Icon name="plus" />
              New table
            </button>
          )}
          {hasScope('schema:read') && (
            <IconButton
              icon="refresh"
              label="Read the list again"
              title="Read again"
              onClick={() => void readCatalog(true)}
            />
          )}
        </div>
        <TableTree withColumns={false} current={name} onPick={(picked) => goTo('tables', picked)} />
      </aside>
      <div class="schema-main">
        {name !== undefined && (
          <a class="schema-back" href="#/tables">
            <Icon name="left" />
            All tables
          </a>
        )}
        {table !== undefined ? (
          <TableView key={name} table={table} part={part} />
        ) : (
          <NoTable name={name} onCreate={create} />
        )}
      </div>
      {isCreating.value && <CreateTableForm onClose={() => (isCreating.value = false)} />}
    </main>
  );
}

function NoTable({ name, onCreate }: { name: string | undefined; onCreate: () => void }) {
  const all = tables.value;
  if (all === null && hasScope('schema:read')) return <div class="empty" aria-busy="true" />;
  if (name !== undefined) {
    return (
      <div class="empty">
        <h1>There is no table “{name}”</h1>
        <p>It may have been renamed or dropped, or it is in another project.</p>
      </div>
    );
  }
  if (all === null || all.length === 0) {
    return (
      <div class="empty">
        <h1>{all === null ? 'Tables' : 'No tables yet'}</h1>
        <p>
          A table is a name and some columns. Values are checked against the types of the columns when they are stored,
          so start with the ones you know; more can be added at any time.
        </p>
        {hasScope('schema:write') ? (
          <button type="button" class="button is-primary" onClick={onCreate}>
            Create a table
          </button>
        ) : (
          <p>This token may not create one.</p>
        )}
        {hasScope('data:write') && hasScope('schema:write') && (
          <p>
            To load a file, <a href="#/import">import it</a>: the table is made from it.
          </p>
        )}
      </div>
    );
  }
  const views = all.filter(({ kind }) => kind !== 'table').length;
  const rows = all.reduce((sum, { approximate_rows: n }) => sum + (n ?? 0), 0);
  return (
    <div class="empty">
      <h1>
        {counted(all.length - views, 'table')}
        {views > 0 && `, ${counted(views, 'view')}`}
      </h1>
      <p>About {count(rows)} rows. Choose a table to see its rows and columns.</p>
      <Largest />
    </div>
  );
}

/** The largest tables. */
function Largest() {
  const { value: all = [] } = useLoaded(readLargest, '');
  const most = all[0]?.[1] ?? 0;
  if (most === 0) return null;
  return (
    <section class="largest" aria-labelledby="largest">
      <h2 id="largest">The largest tables on disk</h2>
      <ul>
        {all.map(([name, bytes]) => (
          <li key={name}>
            <a href={linkTo('tables', name)}>{name}</a>
            <meter min={0} max={most} value={bytes} aria-label={`Size of ${name}`} />
            <span>{size(bytes)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
