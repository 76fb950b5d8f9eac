/** Where people are declared to be, where the declaration no longer fits, and what it does not cover. */
import type { Declaration, SubjectsResponse } from '../../../src/contract/wire/subjects.js';
import { Alert } from '../parts/announcements.js';
import { Table } from '../parts/table.js';
import { linkTo, linkToQuery } from '../route.js';

type DeclaredTable = Declaration[string]['tables'][string];

export const Coverage = ({ state }: { state: SubjectsResponse }) => (
  <>
    {Object.entries(state.subjects ?? {}).map(([kind, { tables }]) => (
      <section key={kind}>
        <h2>Where a {kind} is</h2>
        <Table
          label={`Tables with a ${kind}`}
          rows={Object.entries(tables)}
          keyOf={([table]) => table}
          columns={[
            { title: 'Table', cell: ([table]) => table },
            { title: 'Identified by', cells: 'is-text', cell: ([, declared]) => identifiedBy(declared) },
            { title: 'Erasing', cells: 'is-text', cell: ([, declared]) => erasing(declared) },
          ]}
        />
      </section>
    ))}
    <Alert>{state.problems.map(({ problem }) => problem).join('. ')}</Alert>
    {state.not_covered.length > 0 && (
      <section>
        <h2>Not covered</h2>
        <p class="quiet">An erasure does not look through these tables.</p>
        <Table
          label="Tables that are not covered"
          rows={state.not_covered}
          keyOf={({ table }) => table}
          columns={[
            { title: 'Table', cell: ({ table }) => <a href={linkTo('tables', table)}>{table}</a> },
            { title: 'Looks like an identifier', cells: 'is-text', cell: ({ columns }) => columns.join(', ') || '-' },
          ]}
        />
      </section>
    )}
    {state.missing_indexes.length > 0 && (
      <section>
        <h2>Missing indexes</h2>
        <p class="quiet">Without them, whole tables are read.</p>
        <ul class="places">
          {state.missing_indexes.map(({ sql }) => (
            <li key={sql}>
              <a class="mono" href={linkToQuery(sql, 'Index for people')}>
                {sql}
              </a>
            </li>
          ))}
        </ul>
      </section>
    )}
  </>
);

const identifiedBy = ({ columns }: DeclaredTable): string =>
  Object.entries(columns)
    .map(([column, identifier]) => (column === identifier ? column : `${column} (${identifier})`))
    .join(', ');

const erasing = ({ erase }: DeclaredTable): string =>
  erase === 'delete' ? 'deletes the rows' : `sets ${Object.keys(erase.set).join(', ')}`;
