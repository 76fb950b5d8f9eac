/** Runs a query again, to write all of its rows to a file. */
import { useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import { say } from '../parts/announcements.js';
import { size } from '../parts/formats.js';
import { Icon } from '../parts/icon.js';
import { Menu } from '../parts/menu.js';
import { currentSession } from '../session.js';
import type { RunRequest } from '../sql/run.js';
import { download, type DownloadFormat } from './download.js';

/** @param props.name of the file, without its ending */
export function Download({ question, name = 'result' }: { question: RunRequest; name?: string }) {
  const progress = useSignal<number | null>(null);
  const abort = useMemo(() => ({ current: new AbortController() }), []);
  const start = async (format: DownloadFormat) => {
    abort.current = new AbortController();
    progress.value = 0;
    const signal = AbortSignal.any([abort.current.signal, currentSession().left]);
    try {
      await download(question, format, name, signal, (bytes) => (progress.value = bytes));
      say('Downloaded');
    } catch (error) {
      const isOwn = signal.aborted || (error instanceof DOMException && error.name === 'AbortError');
      if (!isOwn) say(`The download failed: ${error instanceof Error ? error.message : String(error)}`);
    } finally {
      progress.value = null;
    }
  };
  if (progress.value !== null) {
    return (
      <button type="button" class="button" onClick={() => abort.current.abort()}>
        <Icon name="stop" />
        {size(progress.value)} · Stop
      </button>
    );
  }
  return (
    <Menu
      label="Download"
      items={[
        { label: 'CSV', hint: 'runs the query again', run: () => void start('csv') },
        { label: 'NDJSON', hint: 'runs the query again', run: () => void start('ndjson') },
        { label: 'Parquet', hint: 'runs the query twice', run: () => void start('parquet') },
      ]}
    >
      <Icon name="download" />
      Download all
    </Menu>
  );
}
