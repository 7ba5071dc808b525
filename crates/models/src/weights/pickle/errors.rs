/// What is wrong with a pickle.
#[derive(Debug, thiserror::Error)]
pub enum PickleError {
    /// The pickle ends before its stop opcode.
    #[error("the pickle ends in the middle")]
    Truncated,
    /// A protocol torch does not write.
    #[error("the pickle starts with byte {found:#04x}, expected protocol 2 to 5")]
    Protocol {
        /// The byte that is not the protocol number expected.
        found: u8,
    },
    /// An opcode that protocols 2 to 5 of `torch.save` do not use.
    #[error("opcode {found:#04x} is not one `torch.save` writes")]
    Opcode {
        /// The opcode.
        found: u8,
    },
    /// An opcode takes more values than there are.
    #[error("the opcode takes a value, but the stack is empty")]
    EmptyStack,
    /// An opcode closes a group that was never opened.
    #[error("the opcode closes a group that was not opened")]
    NoMark,
    /// A lookup of something never remembered.
    #[error("the opcode recalls entry {index}, which was never stored")]
    UnknownEntry {
        /// The entry.
        index: u32,
    },
    /// Text that is not UTF-8.
    #[error("text is not valid UTF-8")]
    NotUtf8,
    /// A value of the wrong kind.
    #[error("{operation} got {found}, expected {expected}")]
    WrongValue {
        /// What was being done.
        operation: &'static str,
        /// Kind of value needed.
        expected: &'static str,
        /// Kind of value found.
        found: &'static str,
    },
    /// A constructor with the wrong number of arguments.
    #[error("{operation} got {found} arguments, expected at least {expected}")]
    ArgumentCount {
        /// What was being done.
        operation: &'static str,
        /// Arguments needed.
        expected: usize,
        /// Arguments found.
        found: usize,
    },
    /// A storage key far longer than the numbers torch uses, which every lookup would pay for.
    #[error("a storage key has {found} bytes, at most {limit} are supported")]
    LongKey {
        /// Its length.
        found: usize,
        /// The longest supported.
        limit: usize,
    },
    /// A tensor that is the negative or conjugate of what is stored.
    #[error("a tensor carries a pending negation or conjugation, expected plain values")]
    PendingMath,
    /// More opcodes than weights need.
    #[error("the pickle has more than {limit} opcodes")]
    TooManyOpcodes {
        /// The limit.
        limit: usize,
    },
    /// Groups nested deeper than weights need.
    #[error("the pickle nests more than {limit} groups")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
}
