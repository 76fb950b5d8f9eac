/** The data that a screen has requested: loading, available, or refused. */
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { CdpError } from '../../../src/client/index.js';

export interface Loaded<T> {
  /** The last value; undefined: none yet. */
  readonly value: T | undefined;
  /** The error of the last attempt; '' if it succeeded. */
  readonly error: string;
  /** An answer that comes after `key` has changed is dropped. */
  readonly reload: () => Promise<void>;
}

/** @param load called at once, when `key` changes, and every `everyMs` while the page is visible */
export function useLoaded<T>(load: () => Promise<T>, key: string, everyMs?: number): Loaded<T> {
  const value = useSignal<T | undefined>(undefined);
  const error = useSignal('');
  const shown = useRef(key);
  shown.current = key;
  const reload = async () => {
    try {
      const answer = await load();
      if (shown.current !== key) return;
      value.value = answer;
      error.value = '';
    } catch (thrown) {
      if (shown.current === key) error.value = explain(thrown);
    }
  };
  useEffect(() => {
    let isOver = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const next = async () => {
      if (!document.hidden) await reload();
      if (!isOver && everyMs !== undefined) timer = setTimeout(() => void next(), everyMs);
    };
    value.value = undefined;
    error.value = '';
    void next();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [key]);
  return { value: value.value, error: error.value, reload };
}

export const explain = (thrown: unknown): string =>
  thrown instanceof CdpError ? [thrown.message, thrown.hint].filter(Boolean).join('. ') : String(thrown);
