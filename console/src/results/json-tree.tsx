/** JSON as a tree that opens level by level. It is read from the text, so that no digit is lost. */
import { useSignal } from '@preact/signals';
import { cellsOf } from '../../../src/import/json-records.js';
import { membersOf } from './cells.js';

/** The number of children shown before the user presses "more". */
const STEP = 200;

interface NodeProps {
  readonly name: string | undefined;
  readonly text: string;
  readonly depth: number;
}

export const JsonTree = ({ text }: { text: string }) => (
  <ul class="json" aria-label="JSON">
    <Node name={undefined} text={text.trim()} depth={0} />
  </ul>
);

function Node({ name, text, depth }: NodeProps) {
  const isOpen = useSignal(depth < 2);
  const shown = useSignal(STEP);
  const key = name !== undefined && <span class="json-key">{name}</span>;
  const isArray = text.startsWith('[');
  if (!isArray && !text.startsWith('{')) {
    return (
      <li>
        {key}
        <span class={text.startsWith('"') ? 'json-string' : 'json-plain'}>{text}</span>
      </li>
    );
  }
  const children = isArray ? cellsOf(text).map((child, i) => [String(i), child] as const) : [...membersOf(text)];
  const summary = isArray ? `[ ${children.length} ]` : `{ ${children.length} }`;
  if (children.length === 0) {
    return (
      <li>
        {key}
        <span class="json-plain">{text}</span>
      </li>
    );
  }
  return (
    <li>
      <button
        type="button"
        class="json-toggle"
        aria-expanded={isOpen.value}
        onClick={() => (isOpen.value = !isOpen.value)}
      >
        {key}
        <span class="quiet">{summary}</span>
      </button>
      {isOpen.value && (
        <ul>
          {children.slice(0, shown.value).map(([childName, child]) => (
            <Node key={childName} name={childName} text={child} depth={depth + 1} />
          ))}
          {children.length > shown.value && (
            <li>
              <button type="button" class="button" onClick={() => (shown.value += 10 * STEP)}>
                {children.length - shown.value} more
              </button>
            </li>
          )}
        </ul>
      )}
    </li>
  );
}
