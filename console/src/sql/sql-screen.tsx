/** The SQL screen: an editor with tabs, its controls, and the outcome below. */
import './sql.css';
import { useComputed, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { copyText } from '../parts/clipboard.js';
import { Icon, IconButton } from '../parts/icon.js';
import { linkToQuery, replaceRoute, routeQuery } from '../route.js';
import { readCatalog } from '../schema/catalog.js';
import { currentSession, hasScope } from '../session.js';
import { MOD } from '../shell/key-map.js';
import type { SqlEditor } from './editor.js';
import { Outcome } from './outcome.js';
import { Params } from './params.js';
import { Run } from './run.js';
import { SaveDialog } from './save-dialog.js';
import { SidePanel } from './side-panel.js';
import { parameterCount, statementAt, toExplain } from './statements.js';
import { TabStrip } from './tab-strip.js';
import { addToHistory, changeTab, currentId, loadTabs, openTab, runs, tabs } from './tabs.js';

/** Statements that may have changed the tables. */
const CHANGES_SCHEMA = /\b(create|alter|drop|comment|truncate|rename)\b/i;

export function SqlScreen() {
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<SqlEditor | null>(null);
  const isReady = useSignal(false);
  const hasSide = useSignal(innerWidth >= 1_000);
  const isSaving = useSignal(false);
  const cursor = useSignal(0);
  const tab = useComputed(() => tabs.value.find(({ id }) => id === currentId.value));
  const run = runs.value.get(currentId.value);
  const isRunning = run?.state.value === 'running';
  const canWrite = hasScope('sql:write');
  const readOnly = !canWrite || (hasScope('sql:read') && (tab.value?.readOnly ?? true));
  const chosen = useComputed(() =>
    tab.value === undefined || cursor.value < 0 ? undefined : toRun(editor.current, false),
  );
  const params = parameterCount(chosen.value?.text ?? '');

  useEffect(() => {
    void readCatalog();
    const tabsAreThere = loadTabs();
    let isLeft = false;
    void Promise.all([import('./editor.js'), tabsAreThere]).then(([{ SqlEditor }]) => {
      if (host.current === null || isLeft) return;
      editor.current = new SqlEditor(host.current, {
        onChange: (text) => changeTab(currentId.value, { text }),
        onCursor: () => cursor.value++,
        onRun: (isAll) => start(isAll),
        onExplain: () => explain(),
      });
      isReady.value = true;
      editor.current.show(currentId.value, tab.value?.text ?? '');
      editor.current.focus();
    });
    return () => {
      isLeft = true;
      editor.current?.close();
    };
  }, []);

  useEffect(() => {
    if (!isReady.value || tab.value === undefined) return;
    editor.current?.show(tab.value.id, tab.value.text);
    cursor.value++;
  }, [currentId.value, isReady.value]);

  // SQL from a link is shown but not run: the user who follows the link decides that. A link may arrive while the
  // screen is open.
  const linked = routeQuery.value.get('sql');
  const name = routeQuery.value.get('name') ?? undefined;
  useEffect(() => {
    if (linked === null) return;
    replaceRoute('sql');
    void loadTabs().then(() => openTab(linked, name));
  }, [linked]);

  const begin = (text: string, offset: number, isReadOnly: boolean) => {
    const id = currentId.value;
    if (text.trim() === '' || runs.value.get(id)?.state.value === 'running') return;
    editor.current?.clearError();
    const count = parameterCount(text);
    const given = tab.value?.params ?? [];
    const values = Array.from({ length: count }, (_, i) => (given[i] === undefined ? '' : given[i]));
    const next = new Run({ text, params: values, readOnly: isReadOnly, offset });
    runs.value.get(id)?.release();
    runs.value = new Map(runs.value).set(id, next);
    const session = currentSession();
    void next.ended.then(() => {
      const at = next.failure.value?.offset;
      if (at !== undefined && currentId.value === id) editor.current?.markError(at);
      const rows = next.results.value.at(-1)?.rowCount.value ?? 0;
      const entry = { at: next.startedAt, text, state: next.state.value, ms: next.duration.value, rows };
      void addToHistory(entry, session);
      if (!isReadOnly && CHANGES_SCHEMA.test(text)) void readCatalog(true);
    });
  };
  const start = (isAll: boolean) => {
    const wanted = toRun(editor.current, isAll);
    const isReadOnly = !canWrite || (hasScope('sql:read') && (tab.value?.readOnly ?? true));
    if (wanted !== undefined) begin(wanted.text, wanted.from, isReadOnly);
  };
  const explain = (isTimed = false) => {
    const { text = '', from = 0 } = toRun(editor.current, false) ?? {};
    const wanted = toExplain(text);
    if (wanted === undefined) return;
    const head = isTimed ? 'EXPLAIN (ANALYZE, FORMAT JSON) ' : 'EXPLAIN (FORMAT JSON) ';
    begin(head + wanted.text, from + wanted.from - head.length, hasScope('sql:read'));
  };
  const allowChanges = () => {
    changeTab(currentId.value, { readOnly: false });
    const question = run?.request;
    if (question !== undefined) begin(question.text, question.offset, false);
  };
  const share = () => {
    const { text = '', title = '' } = tab.value ?? {};
    const link = `${location.origin}${location.pathname}${linkToQuery(text, title)}`;
    void copyText(link, 'Link copied. It holds the text and no data; it never runs by itself.');
  };

  return (
    <main
      class={hasSide.value ? 'sql has-side' : 'sql'}
      onKeyDown={(event) =>
        event.key === 'Escape' && isRunning && event.repeat === false && stopOnSecond(() => run.stop())
      }
    >
      <h1 class="sr-only">SQL</h1>
      {hasSide.value && <SidePanel onInsert={(text) => editor.current?.insert(text)} />}
      <div class="sql-main">
        <TabStrip hasSide={hasSide}>
          <IconButton icon="star" label="Save this query" title="Save" onClick={() => (isSaving.value = true)} />
          <IconButton icon="link" label="Copy a link to this text" title="Copy a link" onClick={share} />
        </TabStrip>
        <div class="sql-bar" role="toolbar" aria-label="Run">
          {isRunning ? (
            <button type="button" class="button is-danger" onClick={() => run.stop()}>
              <Icon name="stop" />
              Stop
            </button>
          ) : (
            <button type="button" class="button is-primary" title={`${MOD} Enter`} onClick={() => start(false)}>
              <Icon name="play" />
              Run
            </button>
          )}
          <button
            type="button"
            class="button"
            title={`${MOD} Shift Enter`}
            disabled={isRunning}
            onClick={() => start(true)}
          >
            Run all
          </button>
          <button type="button" class="button" title={`${MOD} E`} disabled={isRunning} onClick={() => explain()}>
            Explain
          </button>
          {hasScope('sql:read') && (
            <button
              type="button"
              class="button wide-only"
              title="Runs the statement, read-only, and measures each step"
              disabled={isRunning}
              onClick={() => explain(true)}
            >
              Explain analyze
            </button>
          )}
          {canWrite && hasScope('sql:read') && (
            <label class="check sql-switch" title="Postgres refuses any change">
              <input
                type="checkbox"
                role="switch"
                checked={readOnly}
                onChange={(event) => changeTab(currentId.value, { readOnly: event.currentTarget.checked })}
              />
              Read-only
            </label>
          )}
        </div>
        <div class="sql-editor" ref={host} />
        <span id="editor-help" class="sr-only">
          Control Enter runs the statement at the cursor. Escape, then Tab, leaves the editor.
        </span>
        <Params
          count={params}
          names={tab.value?.paramNames ?? []}
          values={tab.value?.params ?? []}
          onChange={(values) => changeTab(currentId.value, { params: values })}
        />
        <Outcome
          run={run}
          lineOf={(offset) => editor.current?.lineOf(offset) ?? 1}
          onGoTo={(offset) => editor.current?.goTo(offset)}
          onAllowChanges={canWrite ? allowChanges : undefined}
          settings={tab.value ?? {}}
          onSettings={(change) => changeTab(currentId.value, change)}
        />
      </div>
      {isSaving.value && (
        <SaveDialog
          name={tab.value?.title ?? ''}
          text={tab.value?.text ?? ''}
          chart={tab.value?.chart}
          writes={canWrite && !(tab.value?.readOnly ?? true)}
          onClose={() => (isSaving.value = false)}
        />
      )}
    </main>
  );
}

/** The selection, the statement at the cursor, or everything. */
function toRun(editor: SqlEditor | null, isAll: boolean): { text: string; from: number } | undefined {
  if (editor === null) return undefined;
  const { text } = editor;
  if (isAll) return { text, from: 0 };
  const { from, to } = editor.selection;
  return from === to ? statementAt(text, from) : { text: text.slice(from, to), from };
}

let lastEscape = 0;

/** The first Escape closes completions and the like, so only the second one stops the run. */
function stopOnSecond(stop: () => void): void {
  const now = performance.now();
  if (now - lastEscape < 1_000) stop();
  lastEscape = now;
}
