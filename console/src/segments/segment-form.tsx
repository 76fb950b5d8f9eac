/** The form that makes or changes a segment. */
import { useSignal } from '@preact/signals';
import type { Segment, SegmentResponse } from '../../../src/contract/wire/segments.js';
import { ActionForm } from '../parts/action-form.js';
import { TextField } from '../parts/fields.js';
import {
  bodyOf,
  MissedField,
  NameField,
  saveUnlessInUse,
  SqlField,
  useTimed,
  WhenFields,
} from '../schedules/timing.js';
import { currentSession } from '../session.js';

interface FormProps {
  /** The one to change; null: a new one. */
  segment: Segment | null;
  onClose: () => void;
  onDone: (segment: Segment) => void;
}

export function SegmentForm({ segment, onClose, onDone }: FormProps) {
  const typed = useTimed(segment, '1h');
  const maxChange = useSignal(segment === null ? '20' : String(segment.max_change ?? ''));
  const body = bodyOf(typed);
  const guard = maxChange.value.trim() === '' ? {} : { max_change: Number(maxChange.value) };
  const request = body && {
    ...({ method: 'PUT', path: `/api/cdp/segments/${typed.name.value}` } as const),
    body: { ...body, ...guard },
  };
  const list = () => currentSession().client.segments.list();
  return (
    <ActionForm<SegmentResponse>
      title={segment === null ? 'New segment' : `Change ${segment.name}`}
      action="Save"
      done={({ segment: { name } }) => `Segment ${name} saved`}
      request={request}
      run={() => saveUnlessInUse(request, { name: typed.name.value, isNew: segment === null, list })}
      onClose={onClose}
      onDone={({ segment: one }) => onDone(one)}
    >
      {segment === null && <NameField name={typed.name} example="big-spenders" />}
      <SqlField
        sql={typed.sql}
        example="SELECT customer AS key FROM orders GROUP BY customer HAVING sum(total) > 1000"
      />
      <WhenFields of={typed} />
      <TextField
        label="Refuse a run that changes more than this percentage of the members; empty: never"
        text={maxChange}
        inputMode="numeric"
      />
      <MissedField missed={typed.missed} />
    </ActionForm>
  );
}
