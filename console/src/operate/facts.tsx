/** What the screens show of any project, server or move: its status, and all its fields. */

/** All fields of an object of the API, by their names. */
export const Facts = ({ of }: { of: object }) => (
  <dl class="facts-list">
    {flat(of).map(([name, value]) => (
      <div key={name}>
        <dt>{name}</dt>
        <dd>{value}</dd>
      </div>
    ))}
  </dl>
);

/** Skips null, and names nested fields like `facts.version`. */
const flat = (of: object, path = ''): [string, string][] =>
  (Object.entries(of) as [string, string | number | boolean | object | null][]).flatMap(([name, value]) => {
    if (value === null) return [];
    return typeof value === 'object' ? flat(value, `${path}${name}.`) : [[path + name, String(value)]];
  });

/** Whether a project accepts requests. As text, because color alone is not accessible to everyone. */
export const Status = ({ status }: { status: string }) => (
  <span class="status" data-status={status}>
    {status}
  </span>
);
