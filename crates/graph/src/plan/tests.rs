use super::types::*;
