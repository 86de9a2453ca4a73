"""Models, and the functions that list, build and find them.

Importing this package builds no enum and imports no torch; a name's module loads when the name is first used.
"""

from __future__ import annotations

from flambeau.core.exports import lazy_exports

TYPE_CHECKING = False  # `typing` itself costs several milliseconds
if TYPE_CHECKING:
    from flambeau.vision.models._api import *
    from flambeau.vision.models.alexnet import *
    from flambeau.vision.models.convnext import *
    from flambeau.vision.models.densenet import *
    from flambeau.vision.models.digits import *
    from flambeau.vision.models.efficientnet import *
    from flambeau.vision.models.googlenet import *
    from flambeau.vision.models.inception import *
    from flambeau.vision.models.maxvit import *
    from flambeau.vision.models.mnasnet import *
    from flambeau.vision.models.mobilenetv2 import *
    from flambeau.vision.models.mobilenetv3 import *
    from flambeau.vision.models.multiscale import *
    from flambeau.vision.models.regnet import *
    from flambeau.vision.models.resnet import *
    from flambeau.vision.models.shufflenetv2 import *
    from flambeau.vision.models.squeezenet import *
    from flambeau.vision.models.swin_transformer import *
    from flambeau.vision.models.vgg import *
    from flambeau.vision.models.vision_transformer import *

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "_api": (
            "Weights",
            "WeightsEnum",
            "get_model",
            "get_model_builder",
            "get_model_weights",
            "get_weight",
            "list_models",
            "register_model",
        ),
        "digits": ("DigitCNN", "digit_cnn"),
        "alexnet": (
            "AlexNet",
            "alexnet",
        ),
        "vgg": (
            "VGG",
            "vgg11",
            "vgg11_bn",
            "vgg13",
            "vgg13_bn",
            "vgg16",
            "vgg16_bn",
            "vgg19",
            "vgg19_bn",
        ),
        "squeezenet": (
            "SqueezeNet",
            "squeezenet1_0",
            "squeezenet1_1",
        ),
        "densenet": (
            "DenseNet",
            "densenet121",
            "densenet161",
            "densenet169",
            "densenet201",
        ),
        "googlenet": (
            "GoogLeNet",
            "GoogLeNetOutputs",
            "googlenet",
        ),
        "inception": (
            "Inception3",
            "InceptionOutputs",
            "inception_v3",
        ),
        "mobilenetv2": (
            "MobileNetV2",
            "mobilenet_v2",
        ),
        "mobilenetv3": (
            "MobileNetV3",
            "mobilenet_v3_large",
            "mobilenet_v3_small",
        ),
        "mnasnet": (
            "MNASNet",
            "mnasnet0_5",
            "mnasnet0_75",
            "mnasnet1_0",
            "mnasnet1_3",
        ),
        "shufflenetv2": (
            "ShuffleNetV2",
            "shufflenet_v2_x0_5",
            "shufflenet_v2_x1_0",
            "shufflenet_v2_x1_5",
            "shufflenet_v2_x2_0",
        ),
        "regnet": (
            "RegNet",
            "regnet_x_1_6gf",
            "regnet_x_3_2gf",
            "regnet_x_8gf",
            "regnet_x_16gf",
            "regnet_x_32gf",
            "regnet_x_400mf",
            "regnet_x_800mf",
            "regnet_y_1_6gf",
            "regnet_y_3_2gf",
            "regnet_y_8gf",
            "regnet_y_16gf",
            "regnet_y_32gf",
            "regnet_y_128gf",
            "regnet_y_400mf",
            "regnet_y_800mf",
        ),
        "efficientnet": (
            "EfficientNet",
            "efficientnet_b0",
            "efficientnet_b1",
            "efficientnet_b2",
            "efficientnet_b3",
            "efficientnet_b4",
            "efficientnet_b5",
            "efficientnet_b6",
            "efficientnet_b7",
            "efficientnet_v2_l",
            "efficientnet_v2_m",
            "efficientnet_v2_s",
        ),
        "convnext": (
            "ConvNeXt",
            "convnext_base",
            "convnext_large",
            "convnext_small",
            "convnext_tiny",
        ),
        "multiscale": ("MultiScaleFeatures", "multiscale_features"),
        "resnet": (
            "ResNet",
            "resnet18",
            "resnet34",
            "resnet50",
            "resnet101",
            "resnet152",
            "resnext50_32x4d",
            "resnext101_32x8d",
            "resnext101_64x4d",
            "wide_resnet50_2",
            "wide_resnet101_2",
        ),
        "vision_transformer": (
            "VisionTransformer",
            "vit_b_16",
            "vit_b_32",
            "vit_h_14",
            "vit_l_16",
            "vit_l_32",
        ),
        "swin_transformer": (
            "SwinTransformer",
            "swin_b",
            "swin_s",
            "swin_t",
            "swin_v2_b",
            "swin_v2_s",
            "swin_v2_t",
        ),
        "maxvit": ("MaxVit", "maxvit_t"),
        # Weights come from the catalogue itself, so that reading an enum imports no torch.
        "flambeau.vision.weights.digits": ("DigitCNN_Weights",),
        "flambeau.vision.weights.alexnet": ("AlexNet_Weights",),
        "flambeau.vision.weights.vgg": (
            "VGG11_BN_Weights",
            "VGG11_Weights",
            "VGG13_BN_Weights",
            "VGG13_Weights",
            "VGG16_BN_Weights",
            "VGG16_Weights",
            "VGG19_BN_Weights",
            "VGG19_Weights",
        ),
        "flambeau.vision.weights.squeezenet": (
            "SqueezeNet1_0_Weights",
            "SqueezeNet1_1_Weights",
        ),
        "flambeau.vision.weights.densenet": (
            "DenseNet121_Weights",
            "DenseNet161_Weights",
            "DenseNet169_Weights",
            "DenseNet201_Weights",
        ),
        "flambeau.vision.weights.googlenet": ("GoogLeNet_Weights",),
        "flambeau.vision.weights.inception": ("Inception_V3_Weights",),
        "flambeau.vision.weights.mobilenetv2": ("MobileNet_V2_Weights",),
        "flambeau.vision.weights.mobilenetv3": (
            "MobileNet_V3_Large_Weights",
            "MobileNet_V3_Small_Weights",
        ),
        "flambeau.vision.weights.mnasnet": (
            "MNASNet0_5_Weights",
            "MNASNet0_75_Weights",
            "MNASNet1_0_Weights",
            "MNASNet1_3_Weights",
        ),
        "flambeau.vision.weights.shufflenetv2": (
            "ShuffleNet_V2_X0_5_Weights",
            "ShuffleNet_V2_X1_0_Weights",
            "ShuffleNet_V2_X1_5_Weights",
            "ShuffleNet_V2_X2_0_Weights",
        ),
        "flambeau.vision.weights.regnet": (
            "RegNet_X_1_6GF_Weights",
            "RegNet_X_3_2GF_Weights",
            "RegNet_X_8GF_Weights",
            "RegNet_X_16GF_Weights",
            "RegNet_X_32GF_Weights",
            "RegNet_X_400MF_Weights",
            "RegNet_X_800MF_Weights",
            "RegNet_Y_1_6GF_Weights",
            "RegNet_Y_3_2GF_Weights",
            "RegNet_Y_8GF_Weights",
            "RegNet_Y_16GF_Weights",
            "RegNet_Y_32GF_Weights",
            "RegNet_Y_128GF_Weights",
            "RegNet_Y_400MF_Weights",
            "RegNet_Y_800MF_Weights",
        ),
        "flambeau.vision.weights.efficientnet": (
            "EfficientNet_B0_Weights",
            "EfficientNet_B1_Weights",
            "EfficientNet_B2_Weights",
            "EfficientNet_B3_Weights",
            "EfficientNet_B4_Weights",
            "EfficientNet_B5_Weights",
            "EfficientNet_B6_Weights",
            "EfficientNet_B7_Weights",
            "EfficientNet_V2_L_Weights",
            "EfficientNet_V2_M_Weights",
            "EfficientNet_V2_S_Weights",
        ),
        "flambeau.vision.weights.convnext": (
            "ConvNeXt_Base_Weights",
            "ConvNeXt_Large_Weights",
            "ConvNeXt_Small_Weights",
            "ConvNeXt_Tiny_Weights",
        ),
        "flambeau.vision.weights.resnet": (
            "ResNeXt50_32X4D_Weights",
            "ResNeXt101_32X8D_Weights",
            "ResNeXt101_64X4D_Weights",
            "ResNet18_Weights",
            "ResNet34_Weights",
            "ResNet50_Weights",
            "ResNet101_Weights",
            "ResNet152_Weights",
            "Wide_ResNet50_2_Weights",
            "Wide_ResNet101_2_Weights",
        ),
        "flambeau.vision.weights.vision_transformer": (
            "ViT_B_16_Weights",
            "ViT_B_32_Weights",
            "ViT_H_14_Weights",
            "ViT_L_16_Weights",
            "ViT_L_32_Weights",
        ),
        "flambeau.vision.weights.swin_transformer": (
            "Swin_B_Weights",
            "Swin_S_Weights",
            "Swin_T_Weights",
            "Swin_V2_B_Weights",
            "Swin_V2_S_Weights",
            "Swin_V2_T_Weights",
        ),
        "flambeau.vision.weights.maxvit": ("MaxVit_T_Weights",),
    },
    submodules=("_utils", "detection", "feature_extraction", "optical_flow", "quantization", "segmentation", "video"),
)
