/** Deletes records from the quarantine. */
import type { DropQuarantineResponse } from '../../../src/contract/wire/quarantine.js';
import { ActionForm } from '../parts/action-form.js';
import { counted } from '../parts/formats.js';
import type { Filter } from './quarantine-screen.js';

interface DropProps {
  readonly filter: Filter;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

export function DropRecordsForm({ filter, onClose, onDone }: DropProps) {
  const isAll = Object.keys(filter).length === 0;
  const query = new URLSearchParams(isAll ? { all: 'true' } : filter);
  return (
    <ActionForm<DropQuarantineResponse>
      title={filter.id === undefined ? 'Drop records' : 'Drop the record'}
      action={isAll ? 'Drop all of them' : 'Drop'}
      done={({ deleted_rows }) => `${counted(deleted_rows, 'record')} dropped`}
      isDangerous
      request={{ method: 'DELETE', path: `/api/cdp/quarantine?${query}` }}
      onClose={onClose}
      onDone={onDone}
    >
      <p>
        {isAll
          ? 'Every record in the quarantine is deleted, '
          : filter.id === undefined
            ? 'Every record that the filters match is deleted, '
            : 'It is deleted, '}
        and cannot be restored.
      </p>
    </ActionForm>
  );
}
