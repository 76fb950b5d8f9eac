/** One schedule: what it runs and when, its last runs, and how to run, pause, change and delete it. */
import type {
  DetailedSchedule,
  RunScheduleResponse,
  Schedule,
  ScheduleRun,
} from '../../../src/contract/wire/schedules.js';
import { ActionForm } from '../parts/action-form.js';
import { Alert } from '../parts/announcements.js';
import { useDialog } from '../parts/dialog.js';
import { count, counted, dayAndTime, duration } from '../parts/formats.js';
import { Icon } from '../parts/icon.js';
import { useLoaded } from '../parts/loaded.js';
import { Table } from '../parts/table.js';
import { goTo, linkTo } from '../route.js';
import { currentSession } from '../session.js';
import { ScheduleForm } from './schedule-form.js';

const REFRESH_MS = 5_000;

export const whenOf = ({ cron, every, time_zone: zone }: Schedule): string =>
  cron === null ? `every ${every}` : `${cron} ${zone}`;

export const outcomeOf = ({ outcome, error }: ScheduleRun): string =>
  outcome === null ? 'running' : error === null ? outcome : `${outcome}: ${error}`;

export function ScheduleView({ name }: { name: string }) {
  const { value: schedule, error, reload } = useLoaded(() => currentSession().client.schedule(name), '', REFRESH_MS);
  const { dialog, open } = useDialog();
  const done = () => void reload();
  const path = `/api/cdp/schedules/${name}`;
  const forms = {
    run: () =>
      open((close) => (
        <ActionForm<RunScheduleResponse>
          title={`Run ${name} now`}
          action="Run"
          done={({ run }) =>
            run?.ended_at == null ? 'The run goes on' : `It has run: ${counted(run.rows ?? 0, 'row')}`
          }
          request={{ method: 'POST', path: `${path}/run` }}
          onClose={close}
          onDone={done}
        />
      )),
    toggle: ({ paused }: Schedule) =>
      open((close) => (
        <ActionForm
          title={paused ? `Resume ${name}` : `Pause ${name}`}
          action={paused ? 'Resume' : 'Pause'}
          done={paused ? `${name} goes on` : `${name} waits`}
          request={{ method: 'POST', path: `${path}/${paused ? 'resume' : 'pause'}` }}
          onClose={close}
          onDone={done}
        />
      )),
    change: (of: Schedule) => open((close) => <ScheduleForm schedule={of} onClose={close} onDone={done} />),
    remove: () =>
      open((close) => (
        <ActionForm
          title={`Delete ${name}`}
          action="Delete"
          done={`Schedule ${name} deleted`}
          isDangerous
          request={{ method: 'DELETE', path }}
          onClose={close}
          onDone={() => goTo('schedules')}
        >
          <p>Its runs are deleted with it. One that has not ended is canceled.</p>
        </ActionForm>
      )),
  };
  return (
    <main class="operate" aria-busy={schedule === undefined && error === ''}>
      <header class="operate-head">
        <div>
          <a class="back" href={linkTo('schedules')}>
            <Icon name="left" />
            Schedules
          </a>
          <h1>{name}</h1>
        </div>
        {schedule !== undefined && (
          <div class="actions">
            <button type="button" class="button" onClick={forms.run} disabled={schedule.running}>
              Run now
            </button>
            <button type="button" class="button" onClick={() => forms.toggle(schedule)}>
              {schedule.paused ? 'Resume' : 'Pause'}
            </button>
            <button type="button" class="button" onClick={() => forms.change(schedule)}>
              Change
            </button>
            <button type="button" class="button is-danger" onClick={forms.remove}>
              Delete
            </button>
          </div>
        )}
      </header>
      <Alert>{error}</Alert>
      {schedule !== undefined && <Details of={schedule} />}
      {dialog}
    </main>
  );
}

const Details = ({ of }: { of: DetailedSchedule }) => (
  <>
    <dl class="facts">
      <div>
        <dt>When</dt>
        <dd class="mono">{whenOf(of)}</dd>
      </div>
      <div>
        <dt>Next run</dt>
        <dd>
          {of.next_run_at === null ? 'paused' : <time dateTime={of.next_run_at}>{dayAndTime(of.next_run_at)}</time>}
        </dd>
      </div>
      <div>
        <dt>Runs as</dt>
        <dd>{of.role ?? 'the writer'}</dd>
      </div>
      <div>
        <dt>Times missed</dt>
        <dd>{count(of.missed_count)}</dd>
      </div>
      <div>
        <dt>Saved</dt>
        <dd>
          by {of.updated_by}, <time dateTime={of.updated_at}>{dayAndTime(of.updated_at)}</time>
        </dd>
      </div>
    </dl>
    <section aria-labelledby="sql-title">
      <h2 id="sql-title">SQL</h2>
      <div class="curl-body">
        <pre tabIndex={0}>{of.sql}</pre>
      </div>
    </section>
    <section aria-labelledby="runs-title">
      <h2 id="runs-title">Last runs</h2>
      {of.runs.length === 0 ? <p class="quiet">It has not run yet.</p> : <RunTable runs={of.runs} />}
    </section>
  </>
);

const RunTable = ({ runs }: { runs: readonly ScheduleRun[] }) => (
  <Table
    label="List of runs"
    rows={runs}
    keyOf={({ id }) => id}
    classOf={({ error }) => (error === null ? '' : 'is-over')}
    columns={[
      { title: 'Began', cell: ({ started_at: at }) => <time dateTime={at}>{dayAndTime(at)}</time> },
      { title: 'Took', cell: ({ duration_ms: ms }) => ms !== null && duration(ms) },
      { title: 'Rows', cells: 'is-end', cell: ({ rows }) => rows !== null && count(rows) },
      { title: 'Missed', class: 'wide-only', cells: 'is-end', cell: ({ missed }) => count(missed) },
      { title: 'Outcome', cells: 'is-text', cell: outcomeOf },
    ]}
  />
);
