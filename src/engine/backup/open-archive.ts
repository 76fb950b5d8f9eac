/** A backup's file, looked at as a whole before anything of it is restored. */
import { open } from 'node:fs/promises';
import {
  type Control,
  CONTROL,
  MANIFEST,
  type Manifest,
  parseControl,
  parseManifest,
  parseSums,
  SUMS,
} from './manifest.js';
import { BadArchive, hashMember, type Member, readMember, readMembers } from './tar.js';

export interface Archive {
  readonly file: string;
  readonly names: readonly string[];
  readonly manifest: Manifest;
  readonly control: Control;
  readonly member: (name: string) => Member;
  /** @throws BadArchive where a member's content is not what was written */
  readonly verify: (name: string) => Promise<void>;
}

/** Looks at the whole frame of the file, and at the content of its small members. @throws Error naming the file */
export async function openArchive(file: string): Promise<Archive> {
  const handle = await open(file, 'r');
  try {
    const members = await readMembers(handle);
    const member = (name: string): Member => {
      const found = members.get(name);
      if (found === undefined) throw new BadArchive(`It has no ${name}`);
      return found;
    };
    const read = async (name: string): Promise<Buffer> => {
      const parts: Buffer[] = [];
      for await (const part of readMember(file, member(name))) parts.push(part as Buffer);
      return Buffer.concat(parts);
    };
    const sums = parseSums(await read(SUMS));
    const verify = async (name: string): Promise<void> => {
      if ((await hashMember(file, member(name))) !== sums.get(name)) {
        throw new BadArchive(`It is damaged: ${name} is not what was written`);
      }
    };
    await verify(MANIFEST);
    await verify(CONTROL);
    const manifest = parseManifest(await read(MANIFEST));
    const control = parseControl(await read(CONTROL));
    return { file, names: [...members.keys()], manifest, control, member, verify };
  } catch (error) {
    throw error instanceof BadArchive ? new Error(`${file} cannot be restored. ${error.message}`) : error;
  } finally {
    await handle.close();
  }
}
