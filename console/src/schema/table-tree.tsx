/** Tables, and the columns of opened ones, as a tree that renders only its visible part. */
import './table-tree.css';
import { useComputed, useSignal } from '@preact/signals';
import { useEffect, useId, useRef } from 'preact/hooks';
import type { Table } from '../../../src/client/index.js';
import { Icon } from '../parts/icon.js';
import { count } from '../parts/formats.js';
import { useVirtual } from '../parts/virtual.js';
import { hasScope } from '../session.js';
import { catalogError, readCatalog, readColumns, tables } from './catalog.js';

const ROW = 28;

interface TableTreeProps {
  /** The table that is shown next to the tree. */
  readonly current?: string | undefined;
  readonly onPick: (table: string, column?: string) => void;
  /** Whether tables open to show their columns; otherwise a click picks them. */
  readonly withColumns: boolean;
}

interface Line {
  readonly table: Table;
  /** undefined for the table itself. */
  readonly column?: Table['columns'][number];
}

export function TableTree({ current, onPick, withColumns }: TableTreeProps) {
  const filter = useSignal('');
  const open = useSignal<ReadonlySet<string>>(new Set());
  const active = useSignal(0);
  const scroller = useRef<HTMLDivElement>(null);
  const id = useId();
  useEffect(() => void readCatalog(), []);

  const found = useComputed(() => search(tables.value ?? [], filter.value));
  const lines = useComputed<Line[]>(() =>
    found.value.flatMap((table) => [
      { table },
      ...(open.value.has(table.name) ? table.columns.map((column) => ({ table, column })) : []),
    ]),
  );
  const virtual = useVirtual(scroller, { count: lines.value.length, estimateSize: () => ROW });

  const toggle = (name: string, isOpen = !open.value.has(name)) => {
    const next = new Set(open.value);
    if (isOpen) {
      next.add(name);
      void readColumns(name);
    } else next.delete(name);
    open.value = next;
  };
  const go = (to: number) => {
    active.value = Math.max(0, Math.min(to, lines.value.length - 1));
    virtual.scrollToIndex(active.value);
  };

  const takeKey = (event: KeyboardEvent) => {
    const line = lines.value[active.value];
    if (line === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const isInField = event.target instanceof HTMLInputElement;
    if (event.key === 'ArrowDown') go(active.value + 1);
    else if (event.key === 'ArrowUp') go(active.value - 1);
    else if (event.key === 'Enter') onPick(line.table.name, line.column?.name);
    else if (isInField) return;
    else if (event.key === 'Home') go(0);
    else if (event.key === 'End') go(lines.value.length - 1);
    else if (event.key === 'ArrowRight' && withColumns) toggle(line.table.name, true);
    else if (event.key === 'ArrowLeft' && withColumns) {
      toggle(line.table.name, false);
      go(lines.value.findIndex(({ table }) => table === line.table));
    } else return;
    event.preventDefault();
  };

  const click = (index: number, { table, column }: Line) => {
    active.value = index;
    if (withColumns && column === undefined) toggle(table.name);
    else onPick(table.name, column?.name);
  };

  if (!hasScope('schema:read')) return <p class="tree-note quiet">This token may not read the schema.</p>;
  return (
    <div class="tree" onKeyDown={takeKey}>
      <div class="tree-search">
        <Icon name="search" />
        <input
          type="search"
          placeholder="Search"
          aria-label="Search tables and columns"
          aria-controls={`${id}-list`}
          spellcheck={false}
          value={filter.value}
          onInput={(event) => {
            filter.value = event.currentTarget.value;
            active.value = 0;
            virtual.scrollToOffset(0);
          }}
        />
        <span class="tree-count quiet" role="status">
          {tables.value === null ? '' : count(found.value.length)}
          <span class="sr-only"> tables</span>
        </span>
      </div>
      <div
        ref={scroller}
        id={`${id}-list`}
        class="tree-list"
        role="tree"
        aria-label="Tables"
        aria-busy={tables.value === null && catalogError.value === ''}
        tabIndex={0}
        aria-activedescendant={lines.value.length === 0 ? undefined : `${id}-${active.value}`}
      >
        <div role="presentation" class="tree-all" style={{ height: `${virtual.getTotalSize()}px` }}>
          {virtual.getVirtualItems().map(({ index, start }) => {
            const line = lines.value[index];
            if (line === undefined) return null;
            const { table, column } = line;
            const isCurrent = column === undefined && table.name === current;
            return (
              <div
                key={index}
                id={`${id}-${index}`}
                class={`tree-item${index === active.value ? ' is-active' : ''}${column === undefined ? '' : ' is-column'}`}
                role="treeitem"
                aria-level={column === undefined ? 1 : 2}
                aria-selected={isCurrent}
                aria-expanded={withColumns && column === undefined ? open.value.has(table.name) : undefined}
                style={{ transform: `translateY(${start}px)` }}
                title={(column ?? table).comment ?? undefined}
                onClick={() => click(index, line)}
                onDblClick={() => withColumns && column === undefined && onPick(table.name)}
              >
                {column === undefined && (
                  <Icon
                    name={
                      withColumns
                        ? open.value.has(table.name)
                          ? 'down'
                          : 'right'
                        : table.kind === 'table'
                          ? 'table'
                          : 'view'
                    }
                  />
                )}
                <span class="tree-name">{column?.name ?? table.name}</span>
                <span class="tree-fact quiet">{column?.type ?? rowsOf(table)}</span>
              </div>
            );
          })}
        </div>
      </div>
      {catalogError.value !== '' && (
        <p class="tree-note bad" role="alert">
          {catalogError.value}
        </p>
      )}
      {tables.value?.length === 0 && <p class="tree-note quiet">No tables yet.</p>}
      {found.value.length === 0 && (tables.value?.length ?? 0) > 0 && <p class="tree-note quiet">No table matches.</p>}
    </div>
  );
}

const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

const rowsOf = ({ approximate_rows: rows, kind }: Table): string =>
  rows === null ? (kind === 'table' ? '' : 'view') : short.format(rows);

/**
 * Tables that contain all words in their name, comment or columns; those whose name begins with the first word come
 * first.
 */
function search(all: readonly Table[], filter: string): readonly Table[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return all;
  const [first = ''] = words;
  const rank = ({ name }: Table): number => {
    const lower = name.toLowerCase();
    return lower.startsWith(first) ? 0 : lower.includes(first) ? 1 : 2;
  };
  return all
    .filter((table) => {
      const text =
        `${table.name} ${table.comment ?? ''} ${table.columns.map(({ name }) => name).join(' ')}`.toLowerCase();
      return words.every((word) => text.includes(word));
    })
    .sort((a, b) => rank(a) - rank(b));
}
