#include <memory>

#include "test/train/concrete_trainer.hpp"

namespace trilith::test {

template std::unique_ptr<AnyTrainer> make_trainer_of<1>(const Layout&, const LlamaShape&,
                                                        const TrainerOptions&, int);

}  // namespace trilith::test
