//! Comma-separated values as a source (RFC 4180; bytes as they are, not only Unicode text).

use super::args::Args;
use super::columns::Columns;
use super::input::Input;
use super::line::{Record, Rules, ttl};
use crate::items::item::{Next, Source, Total};
use crate::output::{Exit, Failure};

/// The file, and how its records are read.
pub struct Csv {
    reader: csv::Reader<Box<dyn std::io::BufRead>>,
    path: std::path::PathBuf,
    bytes: Option<u64>,
    fingerprint: Option<u64>,
    rules: Rules,
    columns: Columns,
    record: csv::ByteRecord,
}

impl Csv {
    pub(super) fn open(args: &Args, input: Input) -> Result<Csv, Failure> {
        let Input { path, reader, bytes, fingerprint } = input;
        let mut reader =
            csv::ReaderBuilder::new().flexible(true).has_headers(!args.no_header).from_reader(reader);
        let header = if args.no_header {
            None
        } else {
            let names = reader.byte_headers().map_err(|error| failed(&path, &error))?;
            Some(names.iter().map(<[u8]>::to_vec).collect::<Vec<_>>())
        };
        let columns = Columns::choose(args, header.as_deref(), &path)?;
        let rules = Rules::of(args);
        Ok(Csv { reader, path, bytes, fingerprint, rules, columns, record: csv::ByteRecord::new() })
    }

    fn read(&mut self) -> Result<bool, Failure> {
        self.reader.read_byte_record(&mut self.record).map_err(|error| failed(&self.path, &error))
    }
}

fn failed(path: &std::path::Path, error: &csv::Error) -> Failure {
    // The parser's own errors name their line.
    let exit = if error.is_io_error() { Exit::System } else { Exit::Usage };
    Failure::new(exit, format!("cannot read {}: {error}", path.display()))
}

/// Writes the record as one line again.
fn whole(record: &csv::ByteRecord) -> Result<Vec<u8>, String> {
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    writer.write_byte_record(record).map_err(|error| error.to_string())?;
    let mut line = writer.into_inner().map_err(|error| error.to_string())?;
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(line)
}

impl Source for Csv {
    fn next(&mut self) -> Result<Option<Next>, Failure> {
        if !self.read()? {
            return Ok(None);
        }
        let record = &self.record;
        let position = record.position();
        let field = |column| Columns::get(column, |i| record.get(i)).map(<[u8]>::to_vec);
        let value = match self.columns.value {
            Some(column) => field(column),
            None => whole(record),
        };
        let time = self.columns.ttl.and_then(|column| record.get(column));
        let time = time.map_or(Ok(None), |text| ttl(&String::from_utf8_lossy(text)));
        Ok(Some(self.rules.judge(Record {
            key: field(self.columns.key),
            value,
            ttl: time,
            line: position.map_or(0, csv::Position::line),
            bytes: self.reader.position().byte() - position.map_or(0, csv::Position::byte),
        })))
    }

    fn skip(&mut self) -> Result<bool, Failure> {
        self.read()
    }

    fn total(&self) -> Total {
        Total { records: None, bytes: self.bytes }
    }

    fn fingerprint(&self) -> Option<u64> {
        self.fingerprint
    }
}
