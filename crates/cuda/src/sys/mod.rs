//! The C interfaces of the libraries that are loaded at run time: one table of functions per library.
//!
//! Written out here, and not taken from a crate of bindings, so that a missing library or function is a value and never a
//! panic, and so that the default build needs neither headers nor link flags.

pub(crate) mod cublaslt;
pub(crate) mod cudnn;
pub(crate) mod driver;
pub(crate) mod nvrtc;

/// Declares a table of a library's functions, with a constructor that names the first function that is missing.
macro_rules! function_table {
    ($(#[$doc:meta])* $table:ident { $( fn $name:ident as $symbol:literal ($($argument:ty),* $(,)?) -> $result:ty; )* }) => {
        $(#[$doc])*
        pub(crate) struct $table {
            $( pub $name: unsafe extern "C" fn($($argument),*) -> $result, )*
            _library: libloading::Library,
        }

        impl $table {
            /// Looks every function up.
            pub fn bind(library: libloading::Library) -> Result<Self, &'static str> {
                Ok(Self {
                    $(
                        // SAFETY: the signature is the one the library's header declares for this symbol, and the
                        // library stays loaded as long as the table that holds the pointer.
                        $name: unsafe {
                            *library
                                .get::<unsafe extern "C" fn($($argument),*) -> $result>($symbol)
                                .map_err(|_| stringify!($name))?
                        },
                    )*
                    _library: library,
                })
            }
        }
    };
}
pub(crate) use function_table;
