/** From the text of a setting to its value. Each throws an Error saying what is expected. */

export const text = (what: string) => (value: string) => {
  if (value === '') throw new Error(`${what} must not be empty`);
  return value;
};

export const integer = (min: number, max: number) => (value: string) => {
  const number = Number(value);
  if (!/^\d+$/.test(value) || number < min || number > max) {
    throw new Error(`must be a whole number from ${min} to ${max}`);
  }
  return number;
};

export const oneOf =
  <T extends string>(...allowed: readonly T[]) =>
  (value: string) => {
    const found = allowed.find((word) => word === value);
    if (found === undefined) throw new Error(`must be one of ${allowed.join(', ')}`);
    return found;
  };

export const url = (value: string) => {
  if (!/^https?:\/\//.test(value) || !URL.canParse(value)) throw new Error('must be an http or https URL');
  return value;
};

export const databaseUrl = (value: string) => {
  if (!/^postgres(ql)?:\/\//.test(value)) throw new Error('must be postgres://user:password@host:port/database');
  return value;
};

export const secret = (value: string) => {
  if (value.length < 32) throw new Error('must have at least 32 characters');
  return value;
};

export const yesOrNo = (value: string) => oneOf('true', 'false')(value) === 'true';

/** Extension names, which go into statements quoted and into an array's text as they are. */
export const extensionNames = (value: string) => {
  const names = value.split(',').map((name) => name.trim());
  if (!names.every((name) => /^[a-z][a-z0-9_-]{0,62}$/.test(name))) {
    throw new Error('must be names of extensions, separated by commas');
  }
  return names;
};

/** Kept as the operator wrote it, and read by whoever uses it. */
export const checkedBy = (read: (text: string) => unknown) => (value: string) => {
  read(value);
  return value;
};
