/** Reads the project's Markdown files as far as the tests of the docs need it: code, links, headings. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));

/** Folders that hold nothing that we wrote. */
const NOT_OURS = new Set(['node_modules', 'dist', '.git', '.cdp', 'coverage']);

/** Paths of all Markdown files, from the project's root. */
export function markdownFiles(folder = ''): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    if (NOT_OURS.has(entry.name)) return [];
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return markdownFiles(path);
    return path.endsWith('.md') ? [path] : [];
  });
}

export const read = (path: string): string => readFileSync(join(root, path), 'utf8');

export interface Block {
  readonly language: string;
  readonly text: string;
  /** 1-based line of its fence. */
  readonly line: number;
  /** What stands between the previous block, or the beginning, and this one. */
  readonly before: string;
}

const FENCED = /^```(\w*)\n([^]*?)^```$/gm;

/** The fenced blocks in order. */
export function blocks(markdown: string): Block[] {
  let end = 0;
  return [...markdown.matchAll(FENCED)].map(({ 0: whole, 1: language = '', 2: text = '', index }) => {
    const before = markdown.slice(end, index);
    end = index + whole.length;
    return { language, text, before, line: markdown.slice(0, index).split('\n').length };
  });
}

/** Lines of fenced blocks, and the contents of `code` in the text. */
export function code(markdown: string): string[] {
  const fenced = blocks(markdown).flatMap(({ text }) => text.split('\n'));
  const inline = [...withoutBlocks(markdown).matchAll(/`([^`\n]+)`/g)].map(([, text = '']) => text);
  return [...fenced, ...inline];
}

/** Targets of links that stay within the project. */
export function internalLinks(markdown: string): string[] {
  const text = withoutBlocks(markdown).replace(/`[^`\n]+`/g, '');
  return [...text.matchAll(/\]\(([^)\s]+)\)/g)].flatMap(([, target = '']) => (/^[a-z]+:/.test(target) ? [] : [target]));
}

/** The anchors of a file's headings, as GitHub makes them. */
export function anchors(markdown: string): string[] {
  return [...withoutBlocks(markdown).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

const withoutBlocks = (markdown: string): string => markdown.replace(FENCED, '');
