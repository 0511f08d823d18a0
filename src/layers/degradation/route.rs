//! Which failures go to which rungs: the one table of the ladder.

use crate::failure::{Code, Failure};

use super::rung::Needs;

/// Where a failure goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Nowhere: it goes up as it is.
    Nowhere,
    /// From the first rung down.
    All,
    /// From the second: the model is well, a tool is not.
    Tools,
    /// To rungs that ask no model.
    Stored,
}

// === impl Route ===

impl Route {
    /// The one table. `late` says that the call's deadline is over.
    pub(super) fn of(failure: &Failure, late: bool) -> Self {
        match failure.code() {
            Code::InvalidRequest | Code::Authentication | Code::ContentFilter | Code::Cancelled => {
                Self::Nowhere
            }
            // The caller may have no more of any model, or no time for one.
            Code::BudgetExhausted | Code::Deadline => Self::Stored,
            _ if late => Self::Stored,
            _ if failure.tool().is_some() => Self::Tools,
            Code::BulkheadFull => Self::Stored,
            _ => Self::All,
        }
    }

    /// Whether it leads to rungs that need this.
    pub(super) const fn leads_to(self, needs: Needs) -> bool {
        match self {
            Self::Nowhere => false,
            Self::All => true,
            Self::Tools => matches!(needs, Needs::Tools | Needs::Nothing),
            Self::Stored => matches!(needs, Needs::Nothing),
        }
    }
}

/// Whether the model could not handle the tools it was offered, whichever they were.
pub(super) fn is_about_tools(failure: &Failure) -> bool {
    matches!(failure.code(), Code::UnknownTool | Code::InvalidToolArguments | Code::StrayToolCall)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: every code, in time.
    /// Expected: four MUST go nowhere; an empty budget, a full bulkhead and a deadline MUST ask no model; the rest
    /// MUST begin at the first rung.
    #[test]
    fn the_table_is_as_it_is_told() {
        for code in Code::ALL {
            let route = Route::of(&Failure::new(code, "scripted"), false);
            let told = match code {
                Code::InvalidRequest | Code::Authentication | Code::ContentFilter | Code::Cancelled => {
                    Route::Nowhere
                }
                Code::BudgetExhausted | Code::BulkheadFull | Code::Deadline => Route::Stored,
                _ => Route::All,
            };
            assert_eq!(route, told, "{code}");
        }
    }

    /// Scenario: every code, as a tool's, and after the deadline.
    /// Expected: a tool's MUST pass over the first rung; nothing MUST ask a model after the deadline; a provider that is
    /// merely named like a tool MUST be none.
    #[test]
    fn tools_and_deadlines_have_ways_of_their_own() {
        for code in Code::ALL {
            let failure = Failure::new(code, "scripted");
            let plain = Route::of(&failure, false);
            let late = Route::of(&failure, true);
            assert_eq!(late, if plain == Route::Nowhere { plain } else { Route::Stored }, "{code}");
            let named = Route::of(&failure.clone().with_provider(&"tool:search".into()), false);
            assert_eq!(named, plain, "{code}");
            let tool = Route::of(&failure.with_tool("search"), false);
            let told = match (code, plain) {
                (Code::BulkheadFull, _) | (_, Route::All) => Route::Tools,
                (_, plain) => plain,
            };
            assert_eq!(tool, told, "{code}");
        }
        assert!(!Route::Tools.leads_to(Needs::Model) && Route::Tools.leads_to(Needs::Tools));
        assert!(!Route::Stored.leads_to(Needs::Tools) && Route::Stored.leads_to(Needs::Nothing));
    }
}
