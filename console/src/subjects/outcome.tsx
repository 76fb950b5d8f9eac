/** What an erasure has done, or would do: rows by table, and the service's own places. */
import type { ErasureOutcome } from '../../../src/contract/wire/subjects.js';
import { count, counted } from '../parts/formats.js';
import { Table } from '../parts/table.js';

export function Outcome({ result }: { result: ErasureOutcome }) {
  const { tables, others, places, came_meanwhile: meanwhile } = result;
  const rows = [
    ...tables.map(({ table, deleted, changed }) => ({ where: table, deleted, changed, inserted: 0 })),
    ...others.map(({ table, deleted, updated, inserted }) => ({
      where: `${table}, by foreign keys and triggers`,
      ...{ deleted, changed: updated, inserted },
    })),
    ...places.map(({ place, count: deleted }) => ({ where: place, deleted, changed: 0, inserted: 0 })),
  ];
  return (
    <>
      <Table
        label="Rows by table"
        rows={rows}
        keyOf={({ where }) => where}
        columns={[
          { title: 'Table', cells: 'is-text', cell: ({ where }) => where },
          { title: 'Deleted', class: 'is-number', cell: ({ deleted }) => count(deleted) },
          { title: 'Changed', class: 'is-number', cell: ({ changed }) => count(changed) },
          { title: 'Inserted', class: 'is-number', cell: ({ inserted }) => count(inserted) },
        ]}
      />
      {meanwhile > 0 && <p>{counted(meanwhile, 'row')} came meanwhile, and stayed.</p>}
    </>
  );
}
