/** A list that is loaded in pages: the first at once, others on request. */
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { explain } from './loaded.js';

export interface Page<Item> {
  readonly items: readonly Item[];
  /** The start of the next page; null: there is none. */
  readonly next: string | null;
}

export interface Pages<Item> {
  /** The loaded items; null: none yet. */
  readonly items: readonly Item[] | null;
  readonly error: string;
  /** null: there are no more pages. */
  readonly loadMore: (() => void) | null;
  readonly reload: () => void;
}

/** @param load called at once and when `key` changes, with null for the first page */
export function usePages<Item>(load: (from: string | null) => Promise<Page<Item>>, key: string): Pages<Item> {
  const items = useSignal<readonly Item[] | null>(null);
  const next = useSignal<string | null>(null);
  const error = useSignal('');
  const version = useSignal(0);
  const list = useRef(0);

  const read = async (from: string | null) => {
    const mine = list.current;
    const isOver = () => list.current !== mine;
    try {
      const page = await load(from);
      if (isOver()) return;
      items.value = [...(from === null ? [] : (items.value ?? [])), ...page.items];
      next.value = page.next;
      error.value = '';
    } catch (thrown) {
      if (!isOver()) error.value = explain(thrown);
    }
  };

  useEffect(() => {
    list.current++;
    items.value = next.value = null;
    void read(null);
  }, [key, version.value]);

  return {
    items: items.value,
    error: error.value,
    loadMore: next.value === null ? null : () => void read(next.value),
    reload: () => void version.value++,
  };
}
