/** Workbooks that openpyxl writes, with known values in every kind of format, are imported as openpyxl reads them. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { person, type Person } from '../support/cdp.js';
import { endEverything } from '../support/program.js';
import { startTestService, type TestProject, type TestService } from '../support/service.js';

let service: TestService;
let project: TestProject;
let ada: Person;
beforeAll(async () => {
  service = await startTestService();
  project = await service.project();
  ada = await person({ CDP_URL: service.url, CDP_TOKEN: project.token });
});
afterAll(async () => {
  await endEverything();
  await service.close();
});

/** Writes the workbook, reads it again, and prints for each column its kind, its name and its values as text. */
const WORKBOOK = `
import datetime as d, json, sys
from openpyxl import Workbook, load_workbook
from openpyxl.utils.datetime import CALENDAR_MAC_1904
path, epoch = sys.argv[1:]
dates = [d.datetime(2024, 2, 29), d.datetime(1999, 12, 31), d.datetime(2073, 1, 1)]
moments = [d.datetime(2024, 2, 29, 13, 5, 59), d.datetime(2001, 1, 1, 0, 0, 1), d.datetime(1950, 6, 7, 23, 59)]
numbers = [1234567.25, -0.5, 43831]
columns = [
    ('number', 'General', [0, -17, 9007199254740991]),
    *[('number', form, numbers) for form in ['General', '0.00%', '#,##0.00;[Red]-#,##0.00', '[$€-407] #,##0.00', '0.00E+00', '# ?/?',
        '0 "d"', '0 "yyyy-mm-dd"', '0\\\\d', '[Blue]0.0', '_-* #,##0.00\\\\ _€_-', '[>=1000]0.0,"k";0', '@']],
    *[('time', form, dates) for form in ['yyyy-mm-dd', 'dd/mm/yyyy', 'd-mmm-yy', 'mm-dd-yy', '[$-409]d\\\\-mmm\\\\-yyyy;@', 'mmmm yyyy', 'dddd']],
    *[('time', form, moments) for form in ['yyyy-mm-dd hh:mm:ss', 'm/d/yy h:mm', '[$-F400]h:mm:ss\\\\ AM/PM', 'yyyy"-"mm"T"hh:mm']],
    *[('duration', form, [d.timedelta(hours=30, minutes=15), d.timedelta(seconds=1), d.timedelta(days=400)]) for form in ['[h]:mm:ss', '[mm]:ss', '[hh]:mm']],
    ('clock', 'hh:mm:ss', [d.time(23, 59, 59), d.time(12, 0), d.time(6, 30, 15)]),
    ('boolean', 'General', [True, False, True]),
    ('text', 'General', ['007', ' x ', 'a\\nb "c"']),
    ('text', '@', ['é漢😀', 'NULL', '1e5']),
    ('text', 'General', ['<&>', '#N/A', "it's"]),
]
book = Workbook()
if epoch == '1904':
    book.epoch = CALENDAR_MAC_1904
sheet = book.active
for i, (kind, form, values) in enumerate(columns, 1):
    sheet.cell(1, i, f'{kind}_{i}')
    for row, value in enumerate(values, 2):
        cell = sheet.cell(row, i, value)
        if form != 'General':
            cell.number_format = form
book.save(path)

def shown(value):
    if isinstance(value, d.timedelta):
        return value.total_seconds()
    return value.isoformat() if isinstance(value, (d.datetime, d.time)) else value

read = load_workbook(path, data_only=True).active
print(json.dumps([{'kind': columns[i][0], 'format': columns[i][1], 'name': column[0].value, 'values': [shown(cell.value) for cell in column[1:]]}
    for i, column in enumerate(read.iter_cols())]))
`;

interface Column {
  readonly kind: 'number' | 'time' | 'duration' | 'clock' | 'boolean' | 'text';
  readonly format: string;
  readonly name: string;
  readonly values: readonly (string | number | boolean)[];
}

/** Such as 30:15:00, as Postgres writes an interval of hours. */
const SECONDS = [3_600, 60, 1];
const seconds = (text: string): number =>
  text.split(':').reduce((sum, part, i) => sum + Number(part) * (SECONDS[i] ?? 0), 0);

it.each(['1900', '1904'])('imports every format of a workbook with the calendar of %s', async (epoch) => {
  const file = join(ada.folder, `book${epoch}.xlsx`);
  const columns = JSON.parse(
    execFileSync('/usr/bin/python3', ['-c', WORKBOOK, file, epoch], { encoding: 'utf8' }),
  ) as Column[];
  expect(columns.length).toBeGreaterThan(30);
  const { code, stderr } = await ada.run(['import', file, '--table', `book_${epoch}`, '--create']);
  expect([code, stderr]).toEqual([0, expect.anything()]);
  const rows = await project.rows(`SELECT * FROM book_${epoch} ORDER BY id`);
  for (const { kind, format, name, values } of columns) {
    const stored = rows.map((row) => row[name]);
    const compared = {
      number: () => stored,
      time: () => stored.map((value) => String(value).replace(/(\.0+)?Z$/, '')),
      duration: () => stored.map((value) => seconds(String(value))),
      clock: () => stored,
      boolean: () => stored,
      text: () => stored,
    }[kind]();
    expect.soft([kind, format, compared]).toEqual([kind, format, values]);
  }
});
