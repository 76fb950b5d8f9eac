/**
 * The SQL editor. It is in a shadow root, where CodeMirror adds its styles to adopted style sheets, which the page's
 * policy allows. Otherwise it would add a `<style>` element, which the policy forbids.
 */
import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  closeCompletion,
  completionKeymap,
} from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { PostgreSQL, sql } from '@codemirror/lang-sql';
import { bracketMatching, HighlightStyle, indentUnit, syntaxHighlighting } from '@codemirror/language';
import { EditorState, type Extension, Prec, StateEffect, StateField } from '@codemirror/state';
import {
  Decoration,
  type DecorationSet,
  drawSelection,
  EditorView,
  keymap,
  lineNumbers,
  placeholder,
  ViewPlugin,
  type ViewUpdate,
} from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { tokensOf } from '../../../src/contract/sql-tokens.js';
import { completeSql } from './completion.js';
import { statementAt } from './statements.js';

export interface EditorEvents {
  readonly onChange: (text: string) => void;
  readonly onCursor: () => void;
  readonly onRun: (isAll: boolean) => void;
  readonly onExplain: () => void;
}

/** A longer text is not split into statements again after every key. */
const SPLIT_AT_MOST = 100_000;

export class SqlEditor {
  readonly #view: EditorView;
  readonly #extensions: Extension;
  /** The editor state of each tab, with its undo history and cursor. */
  readonly #states = new Map<string, EditorState>();
  #tab = '';

  constructor(host: HTMLElement, events: EditorEvents) {
    const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' });
    this.#extensions = extensions(events);
    this.#view = new EditorView({ root, parent: root });
  }

  show(tab: string, text: string): void {
    if (tab === this.#tab) return;
    this.#states.set(this.#tab, this.#view.state);
    this.#tab = tab;
    const known = this.#states.get(tab);
    const state =
      known ?? EditorState.create({ doc: text, extensions: this.#extensions, selection: { anchor: text.length } });
    this.#view.setState(state);
  }

  get text(): string {
    return this.#view.state.doc.toString();
  }

  /** The cursor and the selection. */
  get selection(): { from: number; to: number } {
    const { from, to } = this.#view.state.selection.main;
    return { from, to };
  }

  insert(text: string): void {
    this.#view.dispatch(this.#view.state.replaceSelection(text));
    this.focus();
  }

  /** Marks the token at the offset until the text changes. */
  markError(offset: number): void {
    const { doc } = this.#view.state;
    const at = Math.min(offset, doc.length);
    this.#view.dispatch({ effects: [setError.of(at), EditorView.scrollIntoView(at)] });
  }

  clearError(): void {
    this.#view.dispatch({ effects: setError.of(null) });
  }

  lineOf(offset: number): number {
    const { doc } = this.#view.state;
    return doc.lineAt(Math.min(offset, doc.length)).number;
  }

  focus(): void {
    this.#view.focus();
  }

  goTo(offset: number): void {
    this.#view.dispatch({ selection: { anchor: Math.min(offset, this.#view.state.doc.length) }, scrollIntoView: true });
    this.focus();
  }

  close(): void {
    this.#view.destroy();
  }
}

function extensions({ onChange, onCursor, onRun, onExplain }: EditorEvents): Extension {
  const key = (name: string, run: () => void) => ({
    key: name,
    preventDefault: true,
    run: (view: EditorView) => (closeCompletion(view), run(), true),
  });
  return [
    Prec.highest(
      keymap.of([
        key('Mod-Enter', () => onRun(false)),
        key('Mod-Shift-Enter', () => onRun(true)),
        key('Mod-e', onExplain),
      ]),
    ),
    lineNumbers(),
    history(),
    drawSelection(),
    indentUnit.of('  '),
    bracketMatching(),
    closeBrackets(),
    sql({ dialect: PostgreSQL }),
    autocompletion({ override: [completeSql], icons: false, maxRenderedOptions: 60 }),
    syntaxHighlighting(COLORS),
    EditorView.lineWrapping,
    placeholder('SELECT …'),
    EditorView.contentAttributes.of({ tabindex: '0', 'aria-label': 'SQL', 'aria-describedby': 'editor-help' }),
    THEME,
    typingOverSelection,
    errorField,
    currentStatement,
    keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap, indentWithTab]),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) onChange(update.state.doc.toString());
      if (update.docChanged || update.selectionSet) onCursor();
    }),
  ];
}

/**
 * If the user types over a selection, Chromium keeps the color of the old text by a style attribute, which the policy
 * forbids and reports. So such text goes directly into the editor's state.
 */
const typingOverSelection = EditorView.domEventHandlers({
  beforeinput({ inputType, data, isComposing }, view) {
    const { from, to, empty } = view.state.selection.main;
    if (inputType !== 'insertText' || data === null || isComposing || empty) return false;
    const insert = () => view.state.update(view.state.replaceSelection(data), { userEvent: 'input.type' });
    const isHandled = view.state.facet(EditorView.inputHandler).some((handle) => handle(view, from, to, data, insert));
    if (!isHandled) view.dispatch(insert());
    // Prevents the browser's own edit.
    return true;
  },
});

const setError = StateEffect.define<number | null>();

const ERROR = Decoration.mark({ class: 'cm-wrong' });

const errorField = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, { docChanged, effects, state }) {
    for (const effect of effects) {
      if (!effect.is(setError)) continue;
      const range = effect.value === null ? undefined : tokenAt(state.doc.toString(), effect.value);
      return range === undefined ? Decoration.none : Decoration.set([ERROR.range(range.from, range.to)]);
    }
    return docChanged ? Decoration.none : marks;
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** The token at the offset; at the end of the text, the last one. */
function tokenAt(text: string, offset: number): { from: number; to: number } | undefined {
  let last: { from: number; to: number } | undefined;
  for (const token of tokensOf(text)) {
    if (token.kind === 'comment') continue;
    if (token.from > offset) break;
    last = token;
    if (offset < token.to) break;
  }
  return last;
}

const CURRENT = Decoration.line({ class: 'cm-current' });

/** A line next to the statement that would run. */
const currentStatement = ViewPlugin.fromClass(
  class {
    decorations: DecorationSet;

    constructor(view: EditorView) {
      this.decorations = linesToRun(view.state);
    }

    update({ docChanged, selectionSet, state }: ViewUpdate): void {
      if (docChanged || selectionSet) this.decorations = linesToRun(state);
    }
  },
  { decorations: (plugin) => plugin.decorations },
);

function linesToRun(state: EditorState): DecorationSet {
  const { main } = state.selection;
  if (!main.empty || state.doc.length > SPLIT_AT_MOST) return Decoration.none;
  const statement = statementAt(state.doc.toString(), main.head);
  if (statement === undefined) return Decoration.none;
  const [first, last] = [state.doc.lineAt(statement.from).number, state.doc.lineAt(statement.to).number];
  const lines = Array.from({ length: last - first + 1 }, (_, i) => CURRENT.range(state.doc.line(first + i).from));
  return Decoration.set(lines);
}

const COLORS = HighlightStyle.define([
  { tag: tags.keyword, color: 'var(--code-keyword)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--code-string)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--code-number)' },
  { tag: [tags.comment, tags.lineComment, tags.blockComment], color: 'var(--quiet)', fontStyle: 'italic' },
  { tag: tags.typeName, color: 'var(--accent)' },
]);

const THEME = EditorView.theme({
  '&': { height: '100%', color: 'var(--text)', backgroundColor: 'transparent', fontSize: '14px' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '20px', overflow: 'auto' },
  '.cm-content': { padding: '12px 0', caretColor: 'var(--text)' },
  '.cm-line': { padding: '0 12px 0 10px', borderLeft: '2px solid transparent' },
  '.cm-line.cm-current': { borderLeftColor: 'var(--accent)' },
  '.cm-gutters': { backgroundColor: 'transparent', border: 'none', color: 'var(--quiet)' },
  '.cm-lineNumbers .cm-gutterElement': { padding: '0 6px 0 12px', minWidth: '28px' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    background: 'color-mix(in srgb, var(--accent) 25%, transparent)',
  },
  '.cm-matchingBracket, &.cm-focused .cm-matchingBracket': { backgroundColor: 'var(--accent-wash)' },
  '.cm-placeholder': { color: 'var(--quiet)' },
  '.cm-wrong': { textDecoration: 'underline wavy var(--bad)', backgroundColor: 'var(--bad-wash)' },
  '.cm-tooltip': {
    border: '1px solid var(--line)',
    borderRadius: '6px',
    backgroundColor: 'var(--raised)',
    color: 'var(--text)',
    boxShadow: '0 8px 24px rgb(0 0 0 / 18%)',
  },
  '.cm-tooltip.cm-tooltip-autocomplete > ul': { fontFamily: 'var(--mono)', fontSize: '13px', maxHeight: '16em' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li': { padding: '3px 10px' },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { backgroundColor: 'var(--accent-wash)', color: 'var(--text)' },
  '.cm-completionDetail': { color: 'var(--quiet)', fontStyle: 'normal', marginLeft: '16px' },
  '.cm-completionMatchedText': { textDecoration: 'none', fontWeight: '600' },
});
