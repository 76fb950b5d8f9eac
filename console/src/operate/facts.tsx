/** All that the API says of one thing, by its names. */
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

/** Without what is null; `facts.version` for what is within. */
const flat = (of: object, path = ''): [string, string][] =>
  (Object.entries(of) as [string, string | number | boolean | object | null][]).flatMap(([name, value]) => {
    if (value === null) return [];
    return typeof value === 'object' ? flat(value, `${path}${name}.`) : [[path + name, String(value)]];
  });
