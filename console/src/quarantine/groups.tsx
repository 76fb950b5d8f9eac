/** How many records have which error in which column: a work list. */
import type { QuarantineGroup } from '../../../src/contract/wire/quarantine.js';
import { Table } from '../parts/table.js';
import { linkTo } from '../route.js';

const linkOf = ({ table, error, column, columns }: QuarantineGroup): string => {
  const of = column ?? columns?.[0];
  const query = new URLSearchParams({ table, error, ...(of === undefined ? {} : { column: of }) });
  return `${linkTo('quarantine')}?${query}`;
};

export const Groups = ({ groups }: { groups: readonly QuarantineGroup[] }) => (
  <Table
    label="What is wrong, by count"
    class="list quarantined"
    rows={groups}
    keyOf={linkOf}
    columns={[
      {
        title: 'What is wrong',
        isHeader: true,
        cell: (group) => (
          <>
            <a href={linkOf(group)}>
              {group.error}
              {group.columns === undefined && group.column === null
                ? ''
                : ` in ${group.columns?.join(', ') ?? group.column}`}
            </a>
            <p class="narrow-only mono">{group.table}</p>
          </>
        ),
      },
      { title: 'Records', cell: ({ count }) => count },
      { title: 'Table', class: 'wide-only', cells: 'mono', cell: ({ table }) => table },
      { title: 'For example', class: 'wide-only', cells: 'is-text bad', cell: ({ message }) => message },
    ]}
  />
);
