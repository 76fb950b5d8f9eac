/** The outcome of a run: its results, its plan or its error, and its duration. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { counted, duration } from '../parts/formats.js';
import { type ResultSettings, ResultView } from '../results/result-view.js';
import { MOD } from '../shell/key-map.js';
import { PlanView } from './plan-view.js';
import { readPlan } from './plan.js';
import { planIn, type RunRequest, type Run } from './run.js';
import { splitStatements } from '../../../src/contract/sql-statements.js';

interface OutcomeProps {
  readonly run: Run | undefined;
  readonly lineOf: (offset: number) => number;
  readonly onGoTo: (offset: number) => void;
  /** undefined: the token may only read. */
  readonly onAllowChanges: (() => void) | undefined;
  readonly settings: ResultSettings;
  readonly onSettings: (change: ResultSettings) => void;
}

export function Outcome({ run, settings, onSettings, ...places }: OutcomeProps) {
  const chosen = useSignal(0);
  useEffect(() => {
    chosen.value = Math.max(0, (run?.results.value.length ?? 1) - 1);
  }, [run, run?.results.value.length]);
  if (run === undefined) return <Hint />;
  const results = run.results.value;
  const result = results[chosen.value] ?? results.at(-1);
  const planText = result?.isComplete.value ? planIn(result) : undefined;
  const plan = planText === undefined ? undefined : readPlan(planText);
  // A table of rows shows the duration itself.
  const isTable = plan === undefined && result !== undefined && result.columns.length > 0 && results.length === 1;
  return (
    <div class="outcome">
      {!isTable && <Status run={run} />}
      <Warnings run={run} />
      {run.failure.value !== null && <Failed run={run} {...places} />}
      {results.length > 1 && (
        <div class="outcome-tabs" role="group" aria-label="Results">
          {results.map((each, i) => (
            <button key={i} type="button" aria-pressed={each === result} onClick={() => (chosen.value = i)}>
              {i + 1} {each.type.value}
              <span class="quiet"> {counted(each.rowCount.value, 'row')}</span>
            </button>
          ))}
        </div>
      )}
      <div class="outcome-body">
        {plan !== undefined ? (
          <PlanView plan={plan} />
        ) : (
          result !== undefined && (
            <ResultView
              lead={isTable ? <Status run={run} /> : null}
              key={`${run.startedAt}-${chosen.value}`}
              result={result}
              question={questionOf(run, results.indexOf(result))}
              settings={settings}
              onSettings={onSettings}
            />
          )
        )}
      </div>
    </div>
  );
}

/** The statement that returned a result, to run again on its own. */
function questionOf({ request, results }: Run, at: number): RunRequest | null {
  if (results.value.length === 1) return request;
  const statements = splitStatements(request.text);
  const statement = statements.length === results.value.length ? statements[at] : undefined;
  return statement === undefined ? null : { ...request, text: statement.text };
}

function Status({ run }: { run: Run }) {
  const state = run.state.value;
  const now = useSignal(Date.now());
  useEffect(() => {
    if (state !== 'running') return;
    const timer = setInterval(() => (now.value = Date.now()), 100);
    return () => clearInterval(timer);
  }, [state]);
  const time = duration(state === 'running' ? Math.max(0, now.value - run.startedAt) : run.duration.value);
  const words = { running: 'Running', done: 'Done', failed: 'Failed', stopped: 'Stopped; the statement was canceled' };
  return (
    <p class={`outcome-status is-${state}`} data-run={run.startedAt}>
      <span role="status">{words[state]}</span>
      <span class="quiet"> · {time}</span>
      {run.request.readOnly && <span class="quiet"> · read-only</span>}
    </p>
  );
}

function Warnings({ run }: { run: Run }) {
  const warnings = run.warnings.value;
  if (warnings.length === 0) return null;
  return (
    <ul class="outcome-warnings" aria-label="Warnings">
      {warnings.map(({ code, message, detail, hint }, i) => (
        <li key={i}>
          <strong>{message}</strong>
          {[detail, hint].map((text) => text !== undefined && ` ${text}`)}
          <span class="quiet">
            {' '}
            · SQLSTATE <code>{code}</code>
          </span>
        </li>
      ))}
    </ul>
  );
}

function Failed({ run, lineOf, onGoTo, onAllowChanges }: Omit<OutcomeProps, 'settings' | 'onSettings'> & { run: Run }) {
  const failure = run.failure.value;
  if (failure === null) return null;
  const { error, offset } = failure;
  const isReadOnly = error.code === 'permission_denied' && run.request.readOnly;
  return (
    <div class="outcome-error" role="alert">
      <p>
        <strong>{error.message}</strong>
      </p>
      {error.hint !== undefined && <p>{error.hint}</p>}
      {isReadOnly && onAllowChanges !== undefined && (
        <p>
          <button type="button" class="button" onClick={onAllowChanges}>
            Turn read-only off and run again
          </button>
        </p>
      )}
      <p class="quiet">
        {offset !== undefined && (
          <>
            <button type="button" class="link" onClick={() => onGoTo(offset)}>
              Line {lineOf(offset)}
            </button>{' '}
            ·{' '}
          </>
        )}
        <code>{error.code}</code>
        {error.postgres !== undefined && (
          <>
            {' '}
            · SQLSTATE <code>{error.postgres.sqlstate}</code>
          </>
        )}
        {error.requestId !== undefined && (
          <>
            {' '}
            · request <code>{error.requestId}</code>
          </>
        )}
      </p>
    </div>
  );
}

const Hint = () => (
  <div class="empty">
    <h2>Results appear here</h2>
    <p>
      Write a statement, then press <kbd>{MOD} Enter</kbd>. Several statements that run together are one transaction:
      all of them take effect, or none.
    </p>
  </div>
);
