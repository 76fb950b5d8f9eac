/** The progress of an import, and its controls. */
import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { Icon } from '../parts/icon.js';
import { Menu } from '../parts/menu.js';
import { count, counted } from '../parts/formats.js';
import { linkTo } from '../route.js';
import { hasScope } from '../session.js';
import type { ImportJob, JobState } from './job.js';
import { Problem } from './problem.js';
import { RefusedGrid } from './refused-grid.js';

const TITLES: Record<JobState, string> = {
  waiting: 'Waiting for its file',
  running: 'Importing',
  pausing: 'Pausing',
  paused: 'Paused',
  failed: 'Stopped',
  correcting: 'Sent, with records to correct',
  done: 'Done',
};

const TICK_MS = 250;

export function JobView({ job, onClose }: { job: ImportJob; onClose: () => void }) {
  const { journal } = job;
  const { header } = journal;
  const state = job.state.value;
  const isMoving = state === 'running' || state === 'pausing';
  const rate = useRate(job, isMoving);
  // While batches are being stored, a timer refreshes the numbers.
  const version = isMoving ? journal.changes.peek() : journal.changes.value;
  const refused = journal.refused.size;
  const isOver = state === 'done' || state === 'correcting';
  return (
    <div class={refused > 0 ? 'job has-refused' : 'job'}>
      <header class="import-head job-head">
        <div class="import-title">
          <h1>{job.fileName}</h1>
          <p class="quiet">
            into <code>{header.table}</code>
          </p>
        </div>
        <JobActions job={job} onClose={onClose} />
      </header>
      <section class="job-progress" aria-label="Progress">
        <progress max={1} value={isOver ? 1 : job.share.value} aria-label={`${job.fileName} that has been read`} />
        <p class="job-numbers">
          <strong role="status">{TITLES[state]}</strong>
          <span>{counted(journal.stored, 'row')} stored</span>
          {journal.totals.updated > 0 && <span class="quiet">{count(journal.totals.updated)} of them updated</span>}
          {journal.totals.ignored > 0 && <span class="quiet">{count(journal.totals.ignored)} left as they were</span>}
          {refused > 0 && <span class="bad">{count(refused)} refused</span>}
          {journal.totals.quarantined > 0 && <Quarantined rows={journal.totals.quarantined} table={header.table} />}
          {isMoving && <span class="quiet">{count(Math.round(rate.rows))} rows/s</span>}
          {isMoving && rate.left !== null && <span class="quiet">{rate.left} left</span>}
        </p>
        {!journal.isKept && !isOver && (
          <p class="import-warning">
            This browser keeps nothing, as in a private window: if you close the tab, the import cannot be resumed.
          </p>
        )}
        {journal.isKept && !isOver && (
          <p class="quiet">
            If you close the tab, drop the same file here within a day: the import continues, and no row is stored
            twice.
          </p>
        )}
        {job.isFull && !isOver && (
          <p class="import-warning">
            Many records were refused: something may be wrong with the whole file. Before you continue, correct them, or
            download and discard them.
          </p>
        )}
        <Problem error={job.error.value} />
      </section>
      {refused > 0 && <RefusedGrid job={job} version={version} />}
      {state === 'done' && (
        <p class="job-done">
          {counted(journal.stored, 'row')} of {job.fileName} are in{' '}
          <a href={linkTo('tables', header.table)}>{header.table}</a>.
          {hasScope('sql:read') && ' Look at them with SQL.'}
        </p>
      )}
    </div>
  );
}

function Quarantined({ rows, table }: { rows: number; table: string }) {
  const text = `${count(rows)} in quarantine`;
  if (!hasScope('sql:read')) return <span class="bad">{text}</span>;
  return (
    <a class="bad" href={`${linkTo('quarantine')}?${new URLSearchParams({ table })}`}>
      {text}
    </a>
  );
}

function JobActions({ job, onClose }: { job: ImportJob; onClose: () => void }) {
  const state = job.state.value;
  const discard = () => {
    job.leave();
    void job.journal.remove().then(onClose);
  };
  const goOn = (label: string) => (
    <button type="button" class="button is-primary" disabled={job.isFull} onClick={() => void job.run()}>
      <Icon name="play" />
      {label}
    </button>
  );
  return (
    <div class="import-actions">
      {(state === 'running' || state === 'pausing') && (
        <button type="button" class="button" disabled={state === 'pausing'} onClick={() => job.pause()}>
          <Icon name="pause" />
          Pause
        </button>
      )}
      {state === 'paused' && goOn('Resume')}
      {state === 'failed' && goOn('Try again')}
      {(state === 'paused' || state === 'failed') && (
        <Menu
          label="Discard"
          items={[{ label: 'Discard this import', hint: 'rows already stored are kept', run: discard }]}
        >
          Discard
        </Menu>
      )}
      {(state === 'done' || state === 'correcting') && (
        <button type="button" class="button" onClick={onClose}>
          <Icon name="upload" />
          Another file
        </button>
      )}
    </div>
  );
}

/** The period over which rates are averaged. */
const WINDOW_MS = 10_000;

/** Refreshes the numbers while they change. Returns the rows per second, and about how long the rest takes. */
function useRate(job: ImportJob, isMoving: boolean): { rows: number; left: string | null } {
  const tick = useSignal(0);
  const past = useRef<{ at: number; rows: number; share: number }[]>([]);
  useEffect(() => {
    if (!isMoving) return;
    past.current = [];
    const timer = setInterval(() => {
      const now = performance.now();
      past.current.push({ at: now, rows: job.journal.stored, share: job.share.value });
      past.current = past.current.filter(({ at }) => at > now - WINDOW_MS);
      tick.value++;
    }, TICK_MS);
    return () => clearInterval(timer);
  }, [isMoving]);
  // Subscribes to the timer.
  void tick.value;
  const [first, last] = [past.current[0], past.current.at(-1)];
  if (first === undefined || last === undefined || last.at === first.at) return { rows: 0, left: null };
  const seconds = (last.at - first.at) / 1_000;
  const speed = (last.share - first.share) / seconds;
  const left = speed > 0 && last.rows > first.rows ? (1 - last.share) / speed : null;
  return { rows: (last.rows - first.rows) / seconds, left: left === null ? null : lasting(left) };
}

function lasting(seconds: number): string {
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${whole} s`;
  return whole < 3_600 ? `${Math.ceil(whole / 60)} min` : `${(whole / 3_600).toFixed(1)} h`;
}
