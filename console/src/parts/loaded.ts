/** The data that a screen has requested: loading, available, or refused. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { CdpError } from '../../../src/client/index.js';

export interface Loaded<T> {
  /** The last value; undefined: none yet. */
  readonly value: T | undefined;
  /** The error of the last attempt; '' if it succeeded. */
  readonly error: string;
  readonly reload: () => Promise<void>;
}

/** @param load called at once, when `key` changes, and every `everyMs` while the page is visible */
export function useLoaded<T>(load: () => Promise<T>, key: string, everyMs?: number): Loaded<T> {
  const value = useSignal<T | undefined>(undefined);
  const error = useSignal('');
  const reload = async () => {
    try {
      value.value = await load();
      error.value = '';
    } catch (thrown) {
      error.value = explain(thrown);
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
