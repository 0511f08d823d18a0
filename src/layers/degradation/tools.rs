//! The second rung: the same model without a tool that failed.

use crate::chat::{Request, ToolChoice};
use crate::failure::{Code, Failure};

use super::answer::{Answer, Lack};
use super::ladder::{Place, add_new};
use super::models::anew;
use super::other::Other;
use super::route::is_about_tools;
use super::rung::{Answering, Case, Consider, Needs, Rung};

/// Asks again without the optional tools that failed or cannot be called.
pub(super) struct SkipTool {
    pub(super) service: Other,
    pub(super) optional: Vec<String>,
    pub(super) quality: f64,
}

// === impl SkipTool ===

impl SkipTool {
    /// The tools to leave out: offered, optional, and to blame. Each once, however often it is offered.
    fn to_skip(&self, case: &Case) -> Vec<String> {
        let all = is_about_tools(&case.failure);
        let offered = case.request.tools.iter().map(|tool| tool.name.clone());
        let mut skipped = Vec::new();
        let blamed = |name: &String| self.optional.contains(name) && (all || case.down.contains(name));
        add_new(&mut skipped, offered.filter(blamed));
        skipped
    }
}

impl Rung for SkipTool {
    fn name(&self) -> &str {
        Place::SkipTool.as_str()
    }

    fn needs(&self) -> Needs {
        Needs::Tools
    }

    fn consider(&self, case: &Case) -> Consider {
        // Without a tool that is required there is no answer, whatever else is left out.
        let required = case.failure.tool().is_some_and(|tool| !self.optional.iter().any(|name| name == tool));
        // And where nothing more is to be left out than was, this very call has failed.
        let is_new = |tool: &String| !case.left_out.contains(tool);
        if !required && self.to_skip(case).iter().any(is_new) { Consider::Try } else { Consider::Pass }
    }

    fn try_answer<'a>(&'a self, case: &'a mut Case) -> Answering<'a> {
        Box::pin(async move {
            let skipped = self.to_skip(case);
            if skipped.is_empty() {
                return Err(Failure::local(Code::NotFound, "there is no tool to leave out"));
            }
            let reply = self.service.ask(leave_out(anew(&case.request), &skipped)).await?;
            Ok(Answer { reply, lack: Lack::without(&skipped, self.quality) })
        })
    }
}

/// The request without these tools.
pub(super) fn leave_out(mut request: Request, skipped: &[String]) -> Request {
    let parts = request.edit();
    parts.tools.retain(|tool| !skipped.contains(&tool.name));
    if matches!(&parts.options.tool_choice, Some(ToolChoice::Named(name)) if skipped.contains(name)) {
        parts.options.tool_choice = None;
    }
    if request.tools.is_empty() { request.without_tools() } else { request }
}
