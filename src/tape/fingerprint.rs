//! A name for what a tape computes and in which order: where two runs share it, and device and driver as well, they
//! agree bit for bit.

use super::plan::Tape;
use crate::fingerprint::Fingerprint;
use crate::gpu::Profile;

impl Tape {
    /// Names kernels, designs, parameters and order of all launches, and the adapter they were planned for.
    pub fn fingerprint(&self, profile: Option<&Profile>) -> String {
        let mut hash = Fingerprint::default();
        match profile {
            Some(profile) => {
                [&profile.backend, &profile.name, &profile.driver]
                    .into_iter()
                    .for_each(|text| hash.add(text.as_bytes()));
            }
            None => hash.add(b"CPU executor"),
        }
        for segment in &self.segments {
            hash.add(segment.name.as_bytes());
            // What is computed again changes no bit.
            for launch in segment.launches.iter().filter(|launch| !launch.repeats) {
                hash.add(launch.kernel.name.as_bytes());
                // Where no device runs it, the design does not matter.
                let design = launch.design.filter(|_| profile.is_some()).map_or("twin", |design| design.name);
                hash.add(design.as_bytes());
                hash.add(format!("{:?}", launch.parameters).as_bytes());
            }
        }
        hash.to_string()
    }
}
