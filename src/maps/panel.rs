//! Maps that are to be seen beside each other: of two texts, of two models, of the steps of a run.

use super::map::Maps;
use super::measures::HeadMeasures;

/// One of several maps beside each other. The first map of each panel belongs to the first of every other, and so on.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What it is called in a caption, such as `first` or `step 250`; no two panels share a name.
    pub name: String,
    /// What the name stands for, such as a model's directory; empty where the name says all.
    pub about: String,
    pub maps: Maps,
    /// Of each map; empty where there is nothing to measure.
    pub measured: Vec<HeadMeasures>,
}

impl Panel {
    /// The name as part of a tensor's name.
    pub fn key(&self) -> String {
        self.name.replace(' ', "_")
    }
}
