/** The page of a schedule or a segment: what it runs and when, its last runs, and how to pause, change and delete it. */
import type { ComponentChildren, VNode } from 'preact';
import type { ScheduleRun } from '../../../src/contract/wire/schedules.js';
import { ActionForm } from '../parts/action-form.js';
import { Alert } from '../parts/announcements.js';
import { useDialog } from '../parts/dialog.js';
import { ago, count, dayAndTime, duration } from '../parts/formats.js';
import { Icon } from '../parts/icon.js';
import type { Loaded } from '../parts/loaded.js';
import { Table } from '../parts/table.js';
import { goTo, linkTo } from '../route.js';
import type { Timed } from './timing.js';

export const whenOf = ({ cron, every, time_zone: zone }: Timed): string =>
  cron === null ? `every ${every}` : `${cron} ${zone}`;

const outcomeOf = ({ outcome, error }: ScheduleRun): ComponentChildren =>
  error === null ? (outcome ?? 'running') : <span class="bad">{`${outcome}: ${error}`}</span>;

type WithRuns = Timed & { runs: readonly ScheduleRun[] };

interface ViewProps<T extends WithRuns> {
  readonly name: string;
  readonly word: 'schedule' | 'segment';
  readonly loaded: Loaded<T>;
  /** What a run counts. */
  readonly unit: 'Rows' | 'Changes';
  readonly runForm: (close: () => void) => VNode;
  readonly changeForm: (of: T, close: () => void) => VNode;
  /** What is deleted with it. */
  readonly deleted: string;
  readonly facts: (of: T) => ComponentChildren;
  /** Below its SQL. */
  readonly more?: (of: T) => ComponentChildren;
}

export function TimedView<T extends WithRuns>(props: ViewProps<T>) {
  const { name, word, loaded, unit, runForm, changeForm, deleted, facts, more } = props;
  const { value: of, error, reload } = loaded;
  const { dialog, open } = useDialog();
  const [Word, words] = [word.replace('s', 'S'), `${word}s`];
  const path = `/api/cdp/${words}/${name}`;
  const toggle = ({ paused }: Timed) =>
    open((close) => (
      <ActionForm
        title={paused ? `Resume ${name}` : `Pause ${name}`}
        action={paused ? 'Resume' : 'Pause'}
        done={paused ? `${name} goes on` : `${name} waits`}
        request={{ method: 'POST', path: `${path}/${paused ? 'resume' : 'pause'}` }}
        onClose={close}
        onDone={() => void reload()}
      />
    ));
  const remove = () =>
    open((close) => (
      <ActionForm
        title={`Delete ${name}`}
        action="Delete"
        done={`${Word} ${name} deleted`}
        isDangerous
        request={{ method: 'DELETE', path }}
        onClose={close}
        onDone={() => goTo(words)}
      >
        <p>{deleted}</p>
      </ActionForm>
    ));
  return (
    <main class="operate" aria-busy={of === undefined && error === ''}>
      <header class="operate-head">
        <div>
          <a class="back" href={linkTo(words)}>
            <Icon name="left" />
            {Word}s
          </a>
          <h1>{name}</h1>
        </div>
        {of !== undefined && (
          <div class="actions">
            <button type="button" class="button" onClick={() => open(runForm)} disabled={of.running}>
              Run now
            </button>
            <button type="button" class="button" onClick={() => toggle(of)}>
              {of.paused ? 'Resume' : 'Pause'}
            </button>
            <button type="button" class="button" onClick={() => open((close) => changeForm(of, close))}>
              Change
            </button>
            <button type="button" class="button is-danger" onClick={remove}>
              Delete
            </button>
          </div>
        )}
      </header>
      <Alert>{error}</Alert>
      {of !== undefined && (
        <>
          <dl class="facts">
            <Fact title="When">
              <span class="mono">{whenOf(of)}</span>
            </Fact>
            <Fact title="Next run">
              {of.next_run_at === null ? 'paused' : <time dateTime={of.next_run_at}>{dayAndTime(of.next_run_at)}</time>}
            </Fact>
            {facts(of)}
            <Fact title="Times missed">{count(of.missed_count)}</Fact>
            <Fact title="Saved">
              by {of.updated_by}, <time dateTime={of.updated_at}>{dayAndTime(of.updated_at)}</time>
            </Fact>
          </dl>
          <section aria-labelledby="sql-title">
            <h2 id="sql-title">SQL</h2>
            <div class="curl-body">
              <pre tabIndex={0}>{of.sql}</pre>
            </div>
          </section>
          {more?.(of)}
          <section aria-labelledby="runs-title">
            <h2 id="runs-title">Last runs</h2>
            {of.runs.length === 0 ? <p class="quiet">It has not run yet.</p> : <RunTable runs={of.runs} unit={unit} />}
          </section>
        </>
      )}
      {dialog}
    </main>
  );
}

export const Fact = ({ title, children }: { title: string; children: ComponentChildren }) => (
  <div>
    <dt>{title}</dt>
    <dd>{children}</dd>
  </div>
);

const RunTable = ({ runs, unit }: { runs: readonly ScheduleRun[]; unit: string }) => (
  <Table
    label="List of runs"
    rows={runs}
    keyOf={({ id }) => id}
    columns={[
      { title: 'Began', cell: ({ started_at: at }) => <time dateTime={at}>{dayAndTime(at)}</time> },
      { title: 'Took', cell: ({ duration_ms: ms }) => ms !== null && duration(ms) },
      { title: unit, cells: 'is-end', cell: ({ rows }) => rows !== null && count(rows) },
      { title: 'Missed', class: 'wide-only', cells: 'is-end', cell: ({ missed }) => count(missed) },
      { title: 'Outcome', cells: 'is-text', cell: outcomeOf },
    ]}
  />
);

/** All of a kind, each with a link to its page. */
export const TimedTable = ({ words, all }: { words: 'schedules' | 'segments'; all: readonly Timed[] }) => (
  <Table
    label={`List of ${words}`}
    rows={all}
    keyOf={({ name }) => name}
    columns={[
      { title: 'Name', cells: 'is-text', cell: ({ name }) => <a href={linkTo(words, name)}>{name}</a> },
      { title: 'When', cells: 'is-text mono', cell: whenOf },
      {
        title: 'Next run',
        class: 'wide-only',
        cell: ({ next_run_at: next }) => (next === null ? 'paused' : <time dateTime={next}>{dayAndTime(next)}</time>),
      },
      {
        title: 'Last run',
        cell: ({ last_run: last }) =>
          last !== null && <time dateTime={last.started_at}>{ago(Date.parse(last.started_at))}</time>,
      },
      { title: 'Outcome', cells: 'is-text', cell: ({ last_run: last }) => last && outcomeOf(last) },
    ]}
  />
);
