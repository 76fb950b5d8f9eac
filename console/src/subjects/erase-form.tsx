/** Erases a person: shows by a dry run what that does, and asks to type who it is. */
import { useSignal } from '@preact/signals';
import type { EraseResponse, SubjectBody } from '../../../src/contract/wire/subjects.js';
import { ActionForm } from '../parts/action-form.js';
import { Alert } from '../parts/announcements.js';
import { CheckboxField, TextField } from '../parts/fields.js';
import { useLoaded } from '../parts/loaded.js';
import { currentSession } from '../session.js';
import type { Found } from './found.js';
import { Outcome } from './outcome.js';

interface FormProps {
  readonly found: Found;
  readonly onClose: () => void;
  readonly onDone: (receipt: { id: string; nonce: string }) => void;
}

export function EraseForm({ found, onClose, onDone }: FormProps) {
  const typed = useSignal('');
  const deep = useSignal(false);
  const joined = useSignal(false);
  const value = String(Object.values(found.who[found.kind] as object)[0]);
  const who: SubjectBody = { ...found.who, ...(joined.value ? { joined: true } : {}) };
  const rehearse = () => currentSession().client.eraseSubject(who, { dryRun: true });
  const { value: rehearsed, error } = useLoaded(rehearse, String(joined.value));
  const result = rehearsed?.result;
  const isSure = result !== undefined && typed.value.trim() === value.trim();
  const path = `/api/cdp/subjects/erase${deep.value ? '?deep=true' : ''}`;
  return (
    <ActionForm<EraseResponse>
      title={`Erase ${value}`}
      action="Erase for good"
      done={({ message }) => message}
      isDangerous
      request={isSure ? { method: 'POST', path, body: who } : null}
      onClose={onClose}
      onDone={({ erasure, nonce }) => onDone({ id: erasure?.id ?? '', nonce: nonce ?? '' })}
    >
      {found.joined.length > 0 && (
        <CheckboxField
          label="The identifiers lead to several people. Erase them all."
          isChecked={joined.value}
          onChange={(is) => (joined.value = is)}
        />
      )}
      <div aria-busy={result === undefined && error === ''}>
        <p>{result === undefined && error === '' ? 'Trying it …' : 'A dry run, which was rolled back, did this:'}</p>
        <Alert>{error}</Alert>
        {result !== undefined && <Outcome result={result} />}
      </div>
      <CheckboxField
        label="Deep: also rewrite tables, indexes and statistics, so that no bytes remain. This locks each table."
        isChecked={deep.value}
        onChange={(is) => (deep.value = is)}
      />
      <TextField
        label={
          <>
            Type <code>{value}</code> to confirm
          </>
        }
        text={typed}
      />
    </ActionForm>
  );
}
