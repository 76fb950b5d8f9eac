/** Declares where people are, as JSON that begins with the proposal or with what is declared. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { Declaration, SubjectsResponse } from '../../../src/contract/wire/subjects.js';
import { ActionForm } from '../parts/action-form.js';
import { Alert } from '../parts/announcements.js';
import { Field } from '../parts/fields.js';
import { counted } from '../parts/formats.js';
import { explain } from '../parts/loaded.js';
import { currentSession } from '../session.js';

interface FormProps {
  /** null: there is none yet. */
  readonly declaration: Declaration | null;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

const shown = (declaration: Declaration | null): string => JSON.stringify(declaration ?? {}, null, 2);

export function DeclareForm({ declaration, onClose, onDone }: FormProps) {
  const text = useSignal(shown(declaration));
  const note = useSignal('');
  const propose = async () => {
    note.value = '';
    try {
      const { subjects } = await currentSession().client.proposeSubjects();
      if (subjects === null) note.value = 'No table looks as if it held people.';
      else text.value = shown(subjects);
    } catch (thrown) {
      note.value = explain(thrown);
    }
  };
  useEffect(() => {
    if (declaration === null) void propose();
  }, []);
  const { subjects, problem } = parsed(text.value);
  return (
    <ActionForm<SubjectsResponse>
      title="Where people are"
      action="Declare"
      done={({ not_covered: left }) => `Declared; ${counted(left.length, 'table')} not covered`}
      request={subjects === null ? null : { method: 'PUT', path: '/api/cdp/subjects', body: { subjects } }}
      onClose={onClose}
      onDone={onDone}
    >
      <p>
        For each table: the columns that identify people, and whether an erasure deletes the rows or sets columns. The
        proposal deletes everywhere: choose what stays.
      </p>
      <Field label="Declaration">
        <textarea
          class="mono"
          rows={18}
          spellcheck={false}
          value={text.value}
          aria-invalid={problem !== ''}
          onInput={(event) => (text.value = event.currentTarget.value)}
        />
      </Field>
      <Alert>{problem || note.value}</Alert>
      {declaration !== null && (
        <div>
          <button type="button" class="button" onClick={() => void propose()}>
            Begin with the proposal
          </button>
        </div>
      )}
    </ActionForm>
  );
}

function parsed(text: string): { subjects: object | null; problem: string } {
  try {
    const subjects = JSON.parse(text) as unknown;
    if (typeof subjects === 'object' && subjects !== null) return { subjects, problem: '' };
    return { subjects: null, problem: 'A declaration is a JSON object' };
  } catch (error) {
    return { subjects: null, problem: `This is not JSON: ${(error as SyntaxError).message}` };
  }
}
