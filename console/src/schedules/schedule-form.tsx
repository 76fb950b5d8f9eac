/** The form that makes or changes a schedule. */
import { useSignal } from '@preact/signals';
import type { Schedule, ScheduleResponse } from '../../../src/contract/wire/schedules.js';
import { ActionForm } from '../parts/action-form.js';
import { TextField } from '../parts/fields.js';
import { currentSession } from '../session.js';
import { bodyOf, MissedField, NameField, saveUnlessInUse, SqlField, useTimed, WhenFields } from './timing.js';

interface FormProps {
  /** The one to change; null: a new one. */
  schedule: Schedule | null;
  onClose: () => void;
  onDone: (schedule: Schedule) => void;
}

export function ScheduleForm({ schedule, onClose, onDone }: FormProps) {
  const typed = useTimed(schedule, null);
  const role = useSignal(schedule?.role ?? '');
  const body = bodyOf(typed);
  const path = `/api/cdp/schedules/${typed.name.value}`;
  const request = body && {
    ...({ method: 'PUT', path } as const),
    body: { ...body, ...(role.value === '' ? {} : { role: role.value }) },
  };
  const list = () => currentSession().client.schedules();
  return (
    <ActionForm<ScheduleResponse>
      title={schedule === null ? 'New schedule' : `Change ${schedule.name}`}
      action="Save"
      done={({ schedule: { name } }) => `Schedule ${name} saved`}
      request={request}
      run={() => saveUnlessInUse(request, { name: typed.name.value, isNew: schedule === null, list })}
      onClose={onClose}
      onDone={({ schedule: one }) => onDone(one)}
    >
      {schedule === null && <NameField name={typed.name} example="retention" />}
      <SqlField sql={typed.sql} example="DELETE FROM events WHERE received_at < now() - interval '90 days'" />
      <WhenFields of={typed} />
      <TextField label="Role as which it runs; empty: the writer" text={role} />
      <MissedField missed={typed.missed} />
    </ActionForm>
  );
}
